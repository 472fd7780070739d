"""Every method of the registry, one entry each.

To add a method, append an entry to its family; see "Add a method" in `embedding_core/README.md`.
Nothing heavy is imported here.
"""

from embedding_core.registry.method import Method

DLE_PAPER = "H. Wang, H. Huang, C. Ding: Discriminant Laplacian Embedding"
LPSSVM_PAPER = (
    "W. Jiang, S.-F. Chang, T. Jebara, A. C. Loui: Semantic Concept Classification by "
    "Joint Semi-supervised Learning of Feature Subspaces and Support Vector Machines"
)
MLDA_PAPER = "H. Wang, C. Ding, H. Huang: Multi-label Linear Discriminant Analysis"
PROJECTIONS_PAPER = (
    "C. Wang, S. Mahadevan: Jointly Learning Data-Dependent Label and Locality-Preserving Projections"
)
SLE_ML_PAPER = (
    "M. Tai, M. Kudo: A Supervised Laplacian Eigenmap Algorithm for Visualization of Multi-label Data"
)
LPP_PAPER = "X. He, P. Niyogi: Locality Preserving Projections"
MDDM_PAPER = "Y. Zhang, Z.-H. Zhou: Multi-Label Dimensionality Reduction via Dependence Maximization"
MANIFOLD_PAPER = (
    "M. Belkin, P. Niyogi, V. Sindhwani: Manifold Regularization: A Geometric Framework "
    "for Learning from Labeled and Unlabeled Examples"
)
LDA_PAPER = "R. A. Fisher: The Use of Multiple Measurements in Taxonomic Problems"
ECC_PAPER = "J. Read, B. Pfahringer, G. Holmes, E. Frank: Classifier Chains for Multi-label Classification"
CLR_PAPER = (
    "J. Fürnkranz, E. Hüllermeier, E. Loza Mencía, K. Brinker: Multilabel Classification via "
    "Calibrated Label Ranking"
)
COMPOSED = "composed by labelscape"


PAPERS = (
    Method(
        name="mlda",
        title="MLDA",
        paper=MLDA_PAPER,
        equations="Eq. 6-20",
        module="embedding_core.discriminant.mlda",
        attribute="MLDA",
        role="projection",
        cost="n p min(n, p) + n p K",
        by_rows=True,
    ),
    Method(
        name="multilabel_dle",
        title="Multi-label DLE",
        paper=DLE_PAPER,
        equations="Eq. 12-19",
        module="embedding_core.discriminant.dle",
        attribute="MultiLabelDLE",
        role="projection",
        uses_graph=True,
        cost="n p min(n, p) + edges p + n p K",
        by_rows=True,
    ),
    Method(
        name="dle",
        title="DLE",
        paper=DLE_PAPER,
        equations="Eq. 1-11, Table 1",
        module="embedding_core.discriminant.dle",
        attribute="DLE",
        role="projection",
        multi_label=False,
        uses_graph=True,
        cost="n p min(n, p) + edges p + n p K",
        by_rows=True,
    ),
    Method(
        name="discriminative_projections",
        title="Discriminative projections",
        paper=PROJECTIONS_PAPER,
        equations="Sections 3.2-3.4, Theorem 1",
        module="embedding_core.discriminant.discriminative_projections",
        attribute="DiscriminativeProjections",
        role="projection",
        uses_graph=True,
        cost="n p min(n, p) + edges p + min(n, p)^3",
        by_rows=True,
    ),
    Method(
        name="lpssvm",
        title="LPSSVM",
        paper=LPSSVM_PAPER,
        equations="Eq. 5-12, Fig. 1",
        module="embedding_core.margin.lpssvm",
        attribute="LPSSVM",
        role="classifier",
        uses_graph=True,
        cost="n m^2 + m^3 + K m^2, m landmarks",
        defaults={"landmarks": "auto", "input_scale": "zscore"},
        own_scaling=True,
    ),
)
"""Methods proposed by the five papers."""

KERNEL_DLE = (
    Method(
        name="kernel_dle",
        title="Kernel DLE",
        paper=f"after {DLE_PAPER}",
        equations="the objective of DLE in a kernel's feature space, leave-one-out rows, see the class",
        module="embedding_core.kernel_dle.classifier",
        attribute="KernelDLEClassifier",
        role="classifier",
        # unlabeled rows matter through the graph: with few labels, or if graph_weight is not 0
        uses_graph=True,
        cost="n^2 p + n^3 + n^2 K; n m p + n m^2 + m^3 with m landmarks",
        own_scaling=True,
    ),
)
"""The DLE objective with a kernel, tuned by exact leave-one-out."""

SUBSPACE = (
    Method(
        name="lpp",
        title="LPP",
        paper=LPP_PAPER,
        equations="X L X^T a = lambda X D X^T a",
        module="embedding_core.subspace.lpp",
        attribute="LPP",
        role="projection",
        uses_graph=True,
        cost="n p min(n, p) + edges p + min(n, p)^3",
    ),
    Method(
        name="kernel_lpp",
        title="Kernel LPP",
        paper=LPP_PAPER,
        equations="K L K a = lambda K D K a",
        module="embedding_core.subspace.lpp",
        attribute="LPP",
        role="projection",
        uses_graph=True,
        cost="n h p + edges h + n h^2, h landmarks",
        defaults={"kernel": "rbf", "landmarks": "auto"},
    ),
    Method(
        name="pca",
        title="PCA",
        paper="K. Pearson: On Lines and Planes of Closest Fit to Systems of Points in Space",
        module="embedding_core.subspace.pca",
        attribute="PCA",
        role="projection",
        cost="n p min(n, p)",
    ),
    Method(
        name="lda",
        title="LDA",
        paper=LDA_PAPER,
        equations=f"Eq. 2-5 of {MLDA_PAPER}",
        module="embedding_core.subspace.lda",
        attribute="LDA",
        role="projection",
        multi_label=False,
        cost="n p min(n, p) + n p K",
    ),
    Method(
        name="cca",
        title="CCA",
        paper="H. Hotelling: Relations between Two Sets of Variates",
        module="embedding_core.subspace.cca",
        attribute="CCA",
        role="projection",
        cost="n p min(n, p) + n p K",
    ),
    Method(
        name="mlsi",
        title="MLSI",
        paper="K. Yu, S. Yu, V. Tresp: Multi-label Informed Latent Semantic Indexing",
        equations=f"Eq. 22 of {MLDA_PAPER}",
        module="embedding_core.subspace.mlsi",
        attribute="MLSI",
        role="projection",
        cost="n p min(n, p) + n p K",
    ),
    Method(
        name="mddm",
        title="MDDM",
        paper=MDDM_PAPER,
        equations=f"Eq. 23 of {MLDA_PAPER}",
        module="embedding_core.subspace.mddm",
        attribute="MDDM",
        role="projection",
        cost="n p K",
    ),
    Method(
        name="kernel_mddm",
        title="Kernel MDDM",
        paper=MDDM_PAPER,
        equations=f"Eq. 23 of {MLDA_PAPER}",
        module="embedding_core.subspace.mddm",
        attribute="MDDM",
        role="projection",
        cost="n h p + n h^2, h landmarks",
        defaults={"kernel": "rbf", "landmarks": "auto"},
    ),
    Method(
        name="eigenfaces",
        title="Eigenfaces",
        paper="M. Turk, A. Pentland: Eigenfaces for Recognition",
        equations=f"section Experiments of {DLE_PAPER}",
        module="embedding_core.subspace.eigenfaces",
        attribute="Eigenfaces",
        role="projection",
        cost="(n + p) n min(n, p)",
    ),
    Method(
        name="fisherfaces",
        title="Fisherfaces",
        paper=(
            "P. N. Belhumeur, J. P. Hespanha, D. J. Kriegman: Eigenfaces vs. Fisherfaces: "
            "Recognition Using Class Specific Linear Projection"
        ),
        module="embedding_core.subspace.fisherfaces",
        attribute="Fisherfaces",
        role="projection",
        multi_label=False,
        cost="n p min(n, p) + n p K",
    ),
    Method(
        name="laplacianfaces",
        title="Laplacianfaces",
        paper="X. He, S. Yan, Y. Hu, P. Niyogi, H.-J. Zhang: Face Recognition Using Laplacianfaces",
        module="embedding_core.subspace.laplacianfaces",
        attribute="Laplacianfaces",
        role="projection",
        uses_graph=True,
        cost="n p min(n, p) + edges p + min(n, p)^3",
    ),
)
"""Projections that the papers compare with."""

EIGENMAPS = (
    Method(
        name="sle_ml",
        title="SLE-ML",
        paper=SLE_ML_PAPER,
        equations="Eq. 3, Sections 3.1-3.2",
        module="embedding_core.eigenmaps.sle_ml",
        attribute="SLEML",
        role="projection",
        uses_graph=True,
        cost="edges K + n K^2",
    ),
    Method(
        name="laplacian_eigenmaps",
        title="Laplacian eigenmaps",
        paper=(
            "M. Belkin, P. Niyogi: Laplacian Eigenmaps for Dimensionality Reduction and Data Representation"
        ),
        equations="Eq. 1, Section 2.1 of Tai and Kudo",
        module="embedding_core.eigenmaps.laplacian_eigenmaps",
        attribute="LaplacianEigenmaps",
        role="projection",
        uses_graph=True,
        cost="edges K + n K^2",
    ),
    Method(
        name="ccdr",
        title="CCDR",
        paper="J. A. Costa, A. O. Hero: Classification Constrained Dimensionality Reduction",
        equations="Eq. 2, Section 2.2 of Tai and Kudo",
        module="embedding_core.eigenmaps.ccdr",
        attribute="CCDR",
        role="projection",
        uses_graph=True,
        cost="edges K + n K^2",
    ),
    Method(
        name="constraint_score",
        title="Constraint Score",
        paper=(
            "D. Zhang, S. Chen, Z.-H. Zhou: Constraint Score: A New Filter Method for Feature "
            "Selection with Pairwise Constraints"
        ),
        equations="Section 2.3 of Tai and Kudo",
        module="embedding_core.eigenmaps.constraint_score",
        attribute="ConstraintScore",
        role="projection",
        multi_label=False,
        cost="n p min(n, p)",
    ),
    Method(
        name="slapeig",
        title="S-LapEig",
        paper="Q. Jiang, M. Jia: Supervised Laplacian Eigenmaps for Machinery Fault Classification",
        equations="Section 2.4 of Tai and Kudo",
        module="embedding_core.eigenmaps.slapeig",
        attribute="SLapEig",
        role="projection",
        multi_label=False,
        uses_graph=True,
        cost="edges K + n K^2",
    ),
    Method(
        name="sle",
        title="S-LE",
        paper=(
            "B. Raducanu, F. Dornaika: A Supervised Non-linear Dimensionality Reduction Approach for "
            "Manifold Learning"
        ),
        equations="Section 2.5 of Tai and Kudo",
        module="embedding_core.eigenmaps.sle",
        attribute="SLE",
        role="projection",
        multi_label=False,
        cost="n^2 p + n^3",
    ),
)
"""SLE-ML and the eigenmaps that its paper compares it with."""

CLASSIFIERS = (
    Method(
        name="ldac1",
        title="LDA, one class at a time",
        paper=LDA_PAPER,
        equations="Eq. 2-5 and Sect. 5.2 of the MLDA paper",
        module="embedding_core.classifiers.ldac1",
        attribute="LDAC1",
        role="classifier",
        cost="n p min(n, p) + n p K, n K per query",
    ),
    Method(
        name="mlls",
        title="MLLS",
        paper="S. Ji, L. Tang, S. Yu, J. Ye: Extracting Shared Subspace for Multi-label Classification",
        equations="Eq. 24 of the MLDA paper, corrected",
        module="embedding_core.classifiers.mlls",
        attribute="MLLS",
        role="classifier",
        cost="n p min(n, p) + min(n, p)^3 + n min(n, p) K",
    ),
    Method(
        name="ml_knn",
        title="ML-kNN",
        paper="M.-L. Zhang, Z.-H. Zhou: ML-KNN: A Lazy Learning Approach to Multi-label Learning",
        equations="priors, likelihoods and the maximum a posteriori rule",
        module="embedding_core.classifiers.ml_knn",
        attribute="MLkNN",
        role="classifier",
        cost="n^2 p, n p per query; n p beyond 20,000 dense rows",
    ),
)
"""Multi-label classifiers that the papers compare with."""

TRANSDUCTION = (
    Method(
        name="local_global_consistency",
        title="Local and global consistency (CF)",
        paper=(
            "D. Zhou, O. Bousquet, T. N. Lal, J. Weston, B. Schölkopf: Learning with Local and "
            "Global Consistency"
        ),
        equations="F = (1 - α) (I - α S)^-1 Y",
        module="embedding_core.transduction.consistency",
        attribute="LocalGlobalConsistency",
        role="classifier",
        uses_graph=True,
        cost="edges K",
    ),
    Method(
        name="harmonic_functions",
        title="Harmonic functions (HF)",
        paper=(
            "X. Zhu, Z. Ghahramani, J. Lafferty: Semi-Supervised Learning Using Gaussian Fields and "
            "Harmonic Functions"
        ),
        equations="Eq. 4, 5, 9",
        module="embedding_core.transduction.harmonic",
        attribute="HarmonicFunctions",
        role="classifier",
        uses_graph=True,
        cost="edges K",
    ),
    Method(
        name="spectral_graph_transducer",
        title="Spectral graph transducer (SGT)",
        paper="T. Joachims: Transductive Learning via Spectral Graph Partitioning",
        equations="constrained ratio cut, secular equation",
        module="embedding_core.transduction.spectral_transducer",
        attribute="SpectralGraphTransducer",
        role="classifier",
        inductive=False,
        uses_graph=True,
        cost="edges d + n d^2 + K d^3, d eigenvectors",
    ),
    Method(
        name="kmeans_laplacian",
        title="K-means and Laplacian (KL)",
        paper="F. Wang, C. Ding, T. Li: Integrated KL (K-means - Laplacian) Clustering",
        module="embedding_core.transduction.kmeans_laplacian",
        attribute="KMeansLaplacian",
        role="projection",
        inductive=False,
        uses_graph=True,
        cost="edges K + n p K",
    ),
    Method(
        name="mlgf",
        title="Multi-label Gaussian fields (MLGF)",
        paper=(
            "Z.-J. Zha, T. Mei, J. Wang, Z. Wang, X.-S. Hua: Graph-based Semi-supervised Learning "
            "with Multi-label"
        ),
        module="embedding_core.transduction.mlgf",
        attribute="MLGF",
        role="classifier",
        uses_graph=True,
        cost="edges K + n K^2",
    ),
    Method(
        name="smse",
        title="Sylvester equation (SMSE)",
        paper=(
            "G. Chen, Y. Song, F. Wang, C. Zhang: Semi-supervised Multi-label Learning by Solving a "
            "Sylvester Equation"
        ),
        equations="(I + μ L) F + ν F H = Y",
        module="embedding_core.transduction.smse",
        attribute="SMSE",
        role="classifier",
        inductive=False,
        uses_graph=True,
        cost="edges K + n K^2",
    ),
    Method(
        name="mcgf",
        title="Correlated Green's function (MCGF)",
        paper=("H. Wang, H. Huang, C. Ding: Image Annotation Using Multi-label Correlated Green's Function"),
        equations="F = G Y (I + α C)",
        module="embedding_core.transduction.mcgf",
        attribute="MCGF",
        role="classifier",
        inductive=False,
        uses_graph=True,
        cost="edges r + n r^2 + n r K, r eigenvectors",
    ),
)
"""Graph transduction methods that the DLE paper compares with."""

# one kernel width serves all features, so these methods scale their input by default
MARGIN = (
    Method(
        name="lapsvm",
        title="Laplacian SVM",
        paper=MANIFOLD_PAPER,
        equations="Eq. 4 of the LPSSVM paper, hinge loss",
        module="embedding_core.margin.manifold",
        attribute="LapSVM",
        role="classifier",
        uses_graph=True,
        cost="n m^2 + edges m + l^2 K, m landmarks, l labeled",
        defaults={"input_scale": "zscore", "landmarks": "auto"},
        own_scaling=True,
    ),
    Method(
        name="laprls",
        title="Laplacian regularized least squares",
        paper=MANIFOLD_PAPER,
        equations="Eq. 4 of the LPSSVM paper, squared loss",
        module="embedding_core.margin.manifold",
        attribute="LapRLS",
        role="classifier",
        uses_graph=True,
        cost="n m^2 + edges m, m landmarks",
        defaults={"input_scale": "zscore", "landmarks": "auto"},
        own_scaling=True,
    ),
    Method(
        name="lpp_svm",
        title="LPP + SVM",
        paper=LPP_PAPER,
        equations="Eq. 3 and 1 of the LPSSVM paper",
        module="embedding_core.margin.lpp_svm",
        attribute="LPPSVM",
        role="classifier",
        uses_graph=True,
        cost="n m^2 + edges m + l^2 K, m landmarks, l labeled",
        defaults={"input_scale": "zscore", "landmarks": "auto"},
        own_scaling=True,
    ),
)
"""Manifold regularization and LPP followed by an SVM: the methods that LPSSVM is compared with."""

COMPOSED_METHODS = (
    Method(
        name="mlda_knn",
        title="MLDA + tuned kNN",
        paper=COMPOSED,
        module="embedding_core.classifiers.composed",
        attribute="ProjectedNeighbors",
        role="classifier",
        cost="4 fits",
        defaults={"projection": "mlda"},
        own_scaling=True,
        public=False,
    ),
    Method(
        name="projections_knn",
        title="Discriminative projections + tuned kNN",
        paper=COMPOSED,
        module="embedding_core.classifiers.composed",
        attribute="ProjectedNeighbors",
        role="classifier",
        uses_graph=True,
        cost="4 fits",
        defaults={"projection": "discriminative_projections"},
        own_scaling=True,
        public=False,
    ),
    Method(
        name="kernel_dle_forest",
        title="Mean of Kernel DLE and random forest",
        paper=COMPOSED,
        module="embedding_core.classifiers.composed",
        attribute="ScoreMean",
        role="classifier",
        uses_graph=True,
        cost="both",
        defaults={"members": ("kernel_dle", "random_forest")},
        own_scaling=True,
        public=False,
    ),
    Method(
        name="ecc",
        title="Ensemble of classifier chains",
        paper=ECC_PAPER,
        module="embedding_core.classifiers.label_ensembles",
        attribute="ClassifierChains",
        role="classifier",
        single_label=False,
        cost="40 n (p + K) K",
        own_scaling=True,
        public=False,
    ),
    Method(
        name="calibrated_label_ranking",
        title="Calibrated label ranking",
        paper=CLR_PAPER,
        module="embedding_core.classifiers.label_ensembles",
        attribute="CalibratedLabelRanking",
        role="classifier",
        single_label=False,
        cost="2 n p K^2",
        own_scaling=True,
        public=False,
    ),
)
"""Classifiers that combine other methods."""

BASELINES = (
    Method(
        name="1nn",
        title="1NN, input as given",
        module="embedding_core.classifiers.baselines",
        attribute="InputNeighbors",
        role="classifier",
        cost="n p per query",
        baseline=True,
        defaults={"scale": "none"},
        own_scaling=True,
        by_rows=True,
        public=False,
    ),
    Method(
        name="1nn_zscore",
        title="1NN, z-scored input",
        module="embedding_core.classifiers.baselines",
        attribute="InputNeighbors",
        role="classifier",
        cost="n p per query",
        baseline=True,
        defaults={"scale": "zscore"},
        own_scaling=True,
        by_rows=True,
        public=False,
    ),
    Method(
        name="svm",
        title="Scaled SVM",
        module="embedding_core.classifiers.baselines",
        attribute="ScaledSVM",
        role="classifier",
        cost="n^2 p K",
        baseline=True,
        own_scaling=True,
        public=False,
    ),
    Method(
        name="nystrom_svm",
        title="Nyström SVM, 1,000 landmarks",
        module="embedding_core.classifiers.least_squares_svm",
        attribute="LeastSquaresSVM",
        role="classifier",
        cost="n m p + n m^2, m landmarks",
        baseline=True,
        defaults={"kernel": "rbf"},
        own_scaling=True,
        by_rows=True,
        public=False,
    ),
    Method(
        name="least_squares_svm",
        title="Linear least-squares SVM",
        module="embedding_core.classifiers.least_squares_svm",
        attribute="LeastSquaresSVM",
        role="classifier",
        cost="n p^2 + n p K",
        baseline=True,
        defaults={"kernel": "linear"},
        own_scaling=True,
        by_rows=True,
        public=False,
    ),
    Method(
        name="logistic_regression",
        title="Logistic regression, tuned",
        module="embedding_core.classifiers.linear",
        attribute="TunedLinear",
        role="classifier",
        cost="n p min(n, p) + n p K",
        baseline=True,
        defaults={"loss": "logistic"},
        own_scaling=True,
        public=False,
    ),
    Method(
        name="smoothed_logistic_regression",
        title="Logistic regression, features averaged over two links",
        module="embedding_core.classifiers.linked",
        attribute="PropagatedClassifier",
        role="classifier",
        uses_graph=True,
        cost="edges p + n p min(n, p) + n p K",
        defaults={"classifier": "logistic_regression", "restarts": (0.0,), "steps": 2},
        baseline=True,
        own_scaling=True,
        public=False,
    ),
    Method(
        name="linear_svm",
        title="Linear SVM, tuned",
        module="embedding_core.classifiers.linear",
        attribute="TunedLinear",
        role="classifier",
        cost="n p min(n, p) + n p K",
        baseline=True,
        defaults={"loss": "squared_hinge"},
        own_scaling=True,
        public=False,
    ),
    Method(
        name="cosine_knn",
        title="kNN by cosine, tuned",
        module="embedding_core.classifiers.baselines",
        attribute="TunedNeighbors",
        role="classifier",
        cost="n^2 p, n p per query; n p beyond 20,000 dense rows",
        baseline=True,
        defaults={"scale": "cosine"},
        own_scaling=True,
        public=False,
    ),
    Method(
        name="knn_zscore",
        title="kNN, z-scored input, tuned",
        module="embedding_core.classifiers.baselines",
        attribute="TunedNeighbors",
        role="classifier",
        cost="n^2 p, n p per query; n p beyond 20,000 dense rows",
        baseline=True,
        defaults={"scale": "zscore"},
        own_scaling=True,
        public=False,
    ),
    Method(
        name="rbf_svc",
        title="RBF-SVC, tuned",
        module="embedding_core.classifiers.baselines",
        attribute="TunedSVM",
        role="classifier",
        cost="36 n^2 p K",
        baseline=True,
        own_scaling=True,
        public=False,
    ),
    Method(
        name="random_forest",
        title="Random forest",
        module="embedding_core.classifiers.forest",
        attribute="RandomForest",
        role="classifier",
        cost="500 sqrt(p) n log(n)",
        baseline=True,
        own_scaling=True,
        public=False,
    ),
    Method(
        name="extra_trees",
        title="Extra trees",
        module="embedding_core.classifiers.forest",
        attribute="ExtraTrees",
        role="classifier",
        cost="150 p n log(n)",
        baseline=True,
        own_scaling=True,
        public=False,
    ),
)
"""Plain baselines that are shown beside every other method."""

ENTRIES: tuple[Method, ...] = (
    *PAPERS,
    *KERNEL_DLE,
    *SUBSPACE,
    *EIGENMAPS,
    *CLASSIFIERS,
    *TRANSDUCTION,
    *MARGIN,
    *COMPOSED_METHODS,
    *BASELINES,
)
