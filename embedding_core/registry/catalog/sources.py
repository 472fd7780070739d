"""Where the methods are from, as a reader sees it."""

DLE_PAPER = "H. Wang, H. Huang, C. Ding: Discriminant Laplacian Embedding"
PROJECTIONS_PAPER = (
    "C. Wang, S. Mahadevan: Jointly Learning Data-Dependent Label and Locality-Preserving Projections"
)
LPSSVM_PAPER = (
    "W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui: Semantic Concept Classification by Joint Semi-supervised "
    "Learning of Feature Subspaces and Support Vector Machines"
)
SLE_ML_PAPER = (
    "M. Tai, M. Kudo: A Supervised Laplacian Eigenmap Algorithm for Visualization of Multi-label Data"
)
MLDA_PAPER = "H. Wang, C. Ding, H. Huang: Multi-label Linear Discriminant Analysis"
