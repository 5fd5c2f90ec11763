"""Pictures of numbers as HTML and SVG: plain data in, markup out, nothing from elsewhere.

`figures` has what clinicians know: forest plot, ROC, precision-recall, calibration and decision curve. Each returns an
element; `fragment` makes a piece of HTML of them that carries its own style, for a notebook or another page.
"""
