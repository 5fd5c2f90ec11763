"""What the paper prints: numbers, as data. Nothing here is computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AtPoints:
    """One line of tables 1 and 2: the method's AUC, and by budget DPAUC's mean and standard deviation."""

    ours: float
    dpauc: dict[int, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class AtSize:
    """One block of tables 1 and 2: the libraries' AUCs of a data set, and a line for each number of points."""

    tensorflow: float
    scikit_learn: float
    points: dict[int, AtPoints]


def _table(printed: str) -> dict[int, AtSize]:
    """Read lines of samples, TensorFlow, scikit-learn, points, ours, and DPAUC ± deviation for ε = 1 and for ε = 8."""
    sizes: dict[int, AtSize] = {}
    for line in printed.strip().splitlines():
        size, tensorflow, scikit_learn, points, ours, *noisy = map(float, line.split())
        block = sizes.setdefault(int(size), AtSize(tensorflow, scikit_learn, {}))
        block.points[int(points)] = AtPoints(ours, {1: (noisy[0], noisy[1]), 8: (noisy[2], noisy[3])})
    return sizes


# Table 1.
CRITEO = _table("""
       100 0.764792 0.765417    25 0.764580    112.8856 1029.426   40.56802 72.81583
       100 0.764792 0.765417    50 0.761465    66.11053 3486.300   -6.93354 1280.965
       100 0.764792 0.765417   100 0.764411    192.3464 4973.634   29.72084 4835.073
      1000 0.752482 0.752500    25 0.752502   69.507704  725.146   0.786719 0.212634
      1000 0.752482 0.752500    50 0.752444   -8.473372  1237.06   2.572270 19.06697
      1000 0.752482 0.752500   100 0.752375   42.184663  1757.05   42.63417 62.44075
     10000 0.746190 0.746184    25 0.745805    0.792406 0.236237   0.746144 0.028154
     10000 0.746190 0.746184    50 0.746052    1.032923 0.953103   0.754784 0.049641
     10000 0.746190 0.746184   100 0.746266   -8.722478  113.148   0.741087 0.107208
    458407 0.745416 0.745416    25 0.744820    0.744391 0.004721   0.744792 0.000549
    458407 0.745416 0.745416    50 0.745283    0.745462 0.010124   0.745351 0.001053
    458407 0.745416 0.745416   100 0.745380    0.749182 0.018712   0.745672 0.001883
""")

# Table 2.
CELEBA = _table("""
       100 0.891400 0.891600    25 0.893400    63.00177 723.6120   -0.97248 28.83271
       100 0.891400 0.891600    50 0.888800    87.28492 787.6992   -43.2448 496.1687
       100 0.891400 0.891600   100 0.892600    244.4928 2981.016   -93.4737 657.0762
      1000 0.938614 0.938588    25 0.937070    8.817562 408.6866   0.991520 0.320545
      1000 0.938614 0.938588    50 0.938250    127.9842 1369.205   2.261357 9.195085
      1000 0.938614 0.938588   100 0.938700    253.1984 2616.424   8.875182 50.45507
     10000 0.911410 0.911406    25 0.909860    1.009118 0.249137   0.904852 0.027761
     10000 0.911410 0.911406    50 0.910900    1.387757 1.807835   0.914889 0.057772
     10000 0.911410 0.911406   100 0.911290    10.76247 102.0806   0.894566 0.115002
    100000 0.954020 0.954052    25 0.950080    0.947500 0.022812   0.950197 0.003212
    100000 0.954020 0.954052    50 0.952370    0.950787 0.049092   0.953180 0.006660
    100000 0.954020 0.954052   100 0.953422    0.980881 0.103526   0.953366 0.011731
""")

# The parties of tables 1 and 2, and of the figure of time against decision points.
PARTIES = 15
REPETITIONS = 100

# Table 3, in megabytes: what one client, and what the server, sends and receives. Four ciphertexts up and two down.
CLIENT_MEGABYTES = {"semi-honest": 6.81, "malicious": 13.62}
SERVER_MEGABYTES = {
    ("semi-honest", 5): 34.05,
    ("semi-honest", 10): 68.10,
    ("semi-honest", 15): 102.15,
    ("malicious", 5): 68.10,
    ("malicious", 10): 136.20,
    ("malicious", 15): 204.30,
}

# Seconds of the aggregator for 100 parties at 100 decision points, four splits, and the accuracy reached there, in
# per cent. The curves of the two figures are not printed as numbers.
SECONDS_100_PARTIES = {"semi-honest": 0.68, "malicious": 1.64}
ACCURACY = 99.93

# Exponents of the guessing bound 2^-x by decision points and splits.
SOUNDNESS_BITS = {(100, 4): 60, (100, 7): 107, (25, 9): 103}

# ppAURORA: seconds for 8 parties with 1,000 samples each, ties included.
MPC_SECONDS, MPC_PARTIES, MPC_SAMPLES = 1405.0, 8, 8000
