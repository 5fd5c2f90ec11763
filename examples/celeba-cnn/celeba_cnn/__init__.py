"""A CNN on CelebA's faces, trained federatedly, with a private AUC after every round."""
