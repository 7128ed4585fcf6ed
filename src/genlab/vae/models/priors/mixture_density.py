"""A learned prior with a mixture per token, for codes that spread and depend on their neighbours.

The network reads the tokens of a square in order and outputs for each the weights, means and
variances of a mixture of normals (a mixture density network, Bishop 1994, in an autoregressive
order as in PixelCNN). Latents of one token depend on each other, too: each is regressed on those
before it, with coefficients that the network outputs. It is trained together with the encoder, as
the learned p(z) of the ELBO (Chen et al. 2017, Variational Lossy Autoencoder).
"""

import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from genlab.distributions.gaussian import LOG_TWO_PI
from genlab.vae.models.priors.autoregressive import LearnedPrior, ReadTokens, sample_component

LOG_STD_RANGE = (-6.0, 4.0)
HEAD_SCALE = 0.3  # factor on the head's weights, so that mixtures start broad and similar
MIN_CLASS_SHARE = 1e-4  # initial share of an empty class


class MixtureDensityPrior(LearnedPrior):
    """p(z) = sum_c p(c) prod_t sum_k w_k N(z_t - L z_t; m_k, diag(s_k^2)).

    The weights w, means m, standard deviations s and the strictly lower triangular matrix L of each
    token are functions of z_<t and c. z_t -> z_t - L z_t has determinant 1, so that the covariance
    of each component is (I - L)^-1 diag(s_k^2) (I - L)^-T (Pourahmadi 1999): without L, the same
    training ended 3 nats higher.

    The global class is the nearest cluster of whole codes. Before `init_from_codes` has found the
    clusters, classes have no effect; a tensor switches them on, so that no update waits for the
    device.
    """

    INIT_ITEMS = 10_000
    INIT_AFTER = 0.2  # when codes reflect what the items show
    CLASSES = 16
    COUNTERS = 48

    centres: Tensor
    initialized: Tensor

    def __init__(
        self, latent_dim: int, tokens: int, width: int, depth: int, components: int, heads: int
    ) -> None:
        super().__init__(latent_dim, tokens)
        self.components = components
        divisor = torch.arange(1.0, tokens + 1)[:, None]
        self.register_buffer("divisor", divisor, persistent=False)
        self.register_buffer("centres", torch.zeros(self.CLASSES, latent_dim))
        self.register_buffer("initialized", torch.zeros((), dtype=torch.bool))
        self.position = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.class_embedding = nn.Parameter(torch.zeros(self.CLASSES, width))
        self.class_logits = nn.Parameter(torch.zeros(self.CLASSES))
        outputs = components * (1 + 2 * self.token_dim) + self.token_dim**2
        self._make_network(self.token_dim, width, depth, outputs, heads)
        nn.init.zeros_(self.recount.weight)
        with torch.no_grad():
            self.head.weight.mul_(HEAD_SCALE)
            # Components start apart, or all of them would learn the same.
            means = self.head.bias[components : components * (1 + self.token_dim)]
            means.copy_(torch.randn(means.shape))
            self.head.weight[-(self.token_dim**2) :] = 0.0
            self.head.bias[-(self.token_dim**2) :] = 0.0

    @torch.no_grad()
    def init_from_codes(self, mean: Tensor, log_var: Tensor, seed: int) -> None:
        """Find the clusters of whole codes; does nothing with fewer codes than classes."""
        if len(mean) < self.CLASSES:
            return
        from sklearn.cluster import KMeans  # here, since importing it takes most of a second

        model = KMeans(self.CLASSES, n_init=1, max_iter=30, random_state=seed)
        with threadpool_limits(1):  # with several threads, the order of sums changes
            model.fit(mean.cpu().numpy())
        shares = torch.bincount(torch.from_numpy(model.labels_), minlength=self.CLASSES)
        self.centres.copy_(torch.from_numpy(model.cluster_centers_))
        self.class_logits.copy_((shares / shares.sum()).clamp_min(MIN_CLASS_SHARE).log())
        self.initialized.fill_(True)

    def token_log_prob(self, z: Tensor) -> Tensor:
        return super().token_log_prob(z) if self.initialized else self.bound_token_log_prob(z)

    def class_shares(self) -> Tensor:
        return torch.where(self.initialized, super().class_shares(), 0.0)

    def _read_tokens(self, z: Tensor) -> ReadTokens:
        tokens, occupied = self._embed(z.view(len(z), self.tokens, self.token_dim))
        return ReadTokens(tokens, self._read_context(tokens), occupied)

    @torch.no_grad()
    def _find_class(self, z: Tensor, tokens: ReadTokens) -> Tensor:
        """Find the nearest cluster."""
        return torch.cdist(z, self.centres).argmin(1)

    def _score(self, tokens: ReadTokens, classes: Tensor) -> Tensor:
        condition = self._condition(classes, tokens.occupied, slice(None))
        logits, means, log_std, coupling = self._mixture(self._predict(tokens.context, condition))
        regressed = (coupling * tokens.values[:, :, None]).sum(-1)
        deviation = ((tokens.values - regressed)[:, :, None] - means) * (-log_std).exp()
        density = -0.5 * deviation.square().sum(-1) - log_std.sum(-1)
        mixed = torch.logsumexp(F.log_softmax(logits, dim=-1) + density, dim=-1)
        return mixed - 0.5 * self.token_dim * LOG_TWO_PI

    def _sample_token(self, out: Tensor, generator: torch.Generator) -> Tensor:
        logits, means, log_std, coupling = self._mixture(out)
        component = sample_component(logits, generator)
        component = component[:, :, None].expand(-1, -1, self.token_dim)
        noise = torch.randn(len(out), self.token_dim, generator=generator).to(out.device)
        std = log_std.gather(1, component)[:, 0].exp()
        residual = means.gather(1, component)[:, 0] + std * noise
        z: Tensor = torch.linalg.solve_triangular(
            -coupling, residual[:, :, None], upper=False, unitriangular=True
        )
        return z[:, :, 0]

    def _embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return z, torch.zeros(z.shape[:-1], dtype=torch.bool, device=z.device)

    def _condition(self, classes: Tensor, occupied: Tensor, tokens: slice) -> Tensor:
        embedding = torch.where(self.initialized, self.class_embedding, 0.0)
        return F.embedding(classes, embedding)[:, None]

    def _mixture(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Split the network's output (..., outputs) into the parameters of the mixture.

        Returns logits (..., k), means and log standard deviations (..., k, token_dim), and the
        matrix L (..., token_dim, token_dim).
        """
        k = self.components
        d = self.token_dim
        logits, means, log_std, coupling = torch.split(out, [k, k * d, k * d, d * d], dim=-1)
        return (
            logits,
            means.reshape(*means.shape[:-1], k, d),
            log_std.reshape(*log_std.shape[:-1], k, d).clamp(*LOG_STD_RANGE),
            coupling.reshape(*coupling.shape[:-1], d, d).tril(-1),
        )
