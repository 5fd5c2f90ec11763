"""A DLRM on Criteo's click logs, trained federatedly, with a private AUC after every round."""
