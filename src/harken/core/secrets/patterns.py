"""Shapes of credentials that their issuers designed to be recognizable.

No entropy is measured. A *word* is identified by its prefix; a *framed* credential is identified by
the text around it. Each pattern begins with fixed letters, which `re` finds fast, and has a hint
that is cheap to search for.

Source: the issuer's documentation, or published examples of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harken.core.secrets.shape import Shape, iter_shapes

MIN_RUN_CHARS = 25
"""Length of the shortest word with its prefix, in characters of `RUN`."""
RUN_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.~:"
"""The characters of words."""
_END = r"(?![A-Za-z0-9])"
_WORD = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
_UUID = rf"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"
_QUOTES = r"[\"'\\]{0,3}"
_IS = rf"{_QUOTES}\s*+[=:]\s*+{_QUOTES}"
_HEADER = r"(?=[A-Za-z0-9._~+/=-]{0,60}\d)(?P<secret>[A-Za-z0-9._~+/=-]{16,})"
_NEW_LINE = r"(?:\s|\\{1,8}[nrt]){1,8}"
_END_OF_KEY = r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_DIGITS = "[MNO][DTjz][AEIMQUYcgk][w-z0-5]"
"""Three decimal digits in base64: a Discord bot token has the bot's number before the secret."""
_STAND_IN = (
    r"(?i:pass(?:w(?:or)?d)?|pwd|pw|secret|user(?:name)?|token|key|admin|root|test|example|changeme"
    r"|your[a-z_-]{0,20}|my[a-z_-]{0,20}|[x*.]+|\$[a-z_]+)"
)
"""Placeholders for a password in a URL."""


def _iter_word_shapes(
    kind: str, prefixes: str, pattern: str, *, hint: str = "", end: str = _END
) -> Iterator[Shape]:
    r"""Yield shapes that must be separate words, since longer words may contain them by chance.

    A line break that JSON writes as `\n` also ends a word, and so does a letter that a URL or JSON
    writes as `%3D` or `\u003d`.
    """
    for prefix in prefixes.split():
        text = re.escape(prefix)
        escapes = rf"(?<=\\[bfnrt]{text})|(?<=%[0-9A-Fa-f]{{2}}{text})|(?<=\\u[0-9a-f]{{4}}{text})"
        begins = rf"(?:(?<![A-Za-z0-9]{text})|{escapes})"
        yield Shape(kind, hint or prefix, prefix, text + begins + pattern + end)


WORD_SHAPES = (
    # models
    *iter_shapes("anthropic-key", "sk-ant-", rf"[a-z]{{2,10}}\d{{2}}-{_WORD}{{20,}}", hint="sk-"),
    *iter_shapes("openrouter-key", "sk-or-v1-", rf"{_HEX}{{40,}}", hint="sk-"),
    *iter_shapes("openai-key", "sk-proj- sk-svcacct- sk-admin-", rf"{_WORD}{{20,}}", hint="sk-"),
    *_iter_word_shapes(
        "openai-key", "sk-", r"(?:[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|[A-Za-z0-9]{48})"
    ),
    *_iter_word_shapes("deepseek-key", "sk-", rf"{_HEX}{{32}}"),
    *_iter_word_shapes("langfuse-key", "sk-lf-", _UUID, hint="sk-"),
    *_iter_word_shapes("google-key", "AIza", rf"{_WORD}{{35}}"),
    *_iter_word_shapes("google-key", "AQ.Ab", rf"{_WORD}{{40,}}"),
    *_iter_word_shapes("google-token", "ya29.", rf"{_WORD}{{30,}}"),
    *iter_shapes("google-client-secret", "GOCSPX-", rf"{_WORD}{{28}}"),
    *_iter_word_shapes("groq-key", "gsk_", "[A-Za-z0-9]{50,}"),
    *_iter_word_shapes("xai-key", "xai-", "[A-Za-z0-9]{70,}"),
    *_iter_word_shapes("perplexity-key", "pplx-", "[A-Za-z0-9]{40,}"),
    *_iter_word_shapes("replicate-token", "r8_", "[A-Za-z0-9]{37}"),
    *_iter_word_shapes("huggingface-token", "hf_ api_org_", "[A-Za-z]{34}"),
    *_iter_word_shapes("cerebras-key", "csk-", "[a-z0-9]{40,}"),
    *_iter_word_shapes("nvidia-key", "nvapi-", rf"{_WORD}{{60,}}"),
    *_iter_word_shapes("together-key", "tgp_v1_", rf"{_WORD}{{40,}}", hint="_v1_"),
    *_iter_word_shapes("elevenlabs-key", "sk_", rf"{_HEX}{{48}}", hint="k_"),
    *_iter_word_shapes("tavily-key", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9-]{32,}"),
    *_iter_word_shapes("firecrawl-key", "fc-", rf"{_HEX}{{32}}"),
    *_iter_word_shapes("pinecone-key", "pcsk_", r"[A-Za-z0-9]{5,6}_[A-Za-z0-9]{60,}"),
    *_iter_word_shapes(
        "langsmith-key", "lsv2_pt_ lsv2_sk_", rf"{_HEX}{{32}}_{_HEX}{{10}}", hint="lsv2_"
    ),
    *_iter_word_shapes("e2b-key", "e2b_", rf"{_HEX}{{40}}"),
    # code, packages
    *iter_shapes("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,}", hint="gh"),
    *iter_shapes("github-token", "github_pat_", r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}", hint="_pat_"),
    *iter_shapes("gitlab-token", "glpat-", rf"{_WORD}{{20,}}(?:(?:\.\d\d)?\.[a-z0-9]{{9}})?"),
    *_iter_word_shapes("gitlab-token", "gldt- glrt- glcbt- glptt-", rf"{_WORD}{{20,}}", end=""),
    *_iter_word_shapes("npm-token", "npm_", "[A-Za-z0-9]{36}"),
    *iter_shapes(
        "pypi-token",
        "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw",
        rf"{_WORD}{{40,}}",
        hint="pypi-Ag",
    ),
    *_iter_word_shapes("rubygems-key", "rubygems_", rf"{_HEX}{{48}}"),
    *_iter_word_shapes(
        "docker-token", "dckr_pat_ dckr_oat_", rf"{_WORD}{{27,}}", end="", hint="dckr_"
    ),
    *_iter_word_shapes("postman-key", "PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    *_iter_word_shapes("circleci-token", "CCIPAT_", rf"[A-Za-z0-9]{{22}}_{_HEX}{{40}}"),
    *_iter_word_shapes("buildkite-token", "bkua_", "[a-z0-9]{40}"),
    # clouds, machines
    *_iter_word_shapes(
        "digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rf"{_HEX}{{64}}", hint="_v1_"
    ),
    *_iter_word_shapes(
        "doppler-token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
        hint="dp.",
    ),
    *_iter_word_shapes("heroku-key", "HRKU-", rf"(?:AA{_WORD}{{58}}|{_UUID})"),
    *_iter_word_shapes("vault-token", "hvs. hvb. hvr.", rf"{_WORD}{{24,}}", end="", hint="hv"),
    *_iter_word_shapes("databricks-token", "dapi", rf"{_HEX}{{32}}(?:-\d)?"),
    *_iter_word_shapes("pulumi-token", "pul-", rf"{_HEX}{{40}}"),
    *_iter_word_shapes(
        "planetscale-token",
        "pscale_tkn_ pscale_pw_ pscale_oauth_",
        r"[A-Za-z0-9_.-]{32,}",
        hint="pscale_",
    ),
    *_iter_word_shapes("supabase-token", "sbp_", rf"{_HEX}{{40}}"),
    *_iter_word_shapes("supabase-token", "sb_secret_", rf"{_WORD}{{31}}", hint="secret_"),
    *_iter_word_shapes("neon-key", "napi_", "[a-z0-9]{60,}"),
    *_iter_word_shapes("netlify-token", "nfp_", "[A-Za-z0-9]{36,}"),
    *_iter_word_shapes("render-key", "rnd_", "[A-Za-z0-9]{28,}"),
    *_iter_word_shapes("tailscale-key", "tskey-", r"[a-z]{3,12}-[A-Za-z0-9]{6,}-[A-Za-z0-9]{16,}"),
    *_iter_word_shapes("cloudflare-key", "v1.0-", rf"{_HEX}{{24}}-{_HEX}{{140,}}"),
    *_iter_word_shapes(
        "age-key", "AGE-SECRET-KEY-", "(?:PQ-)?1[02-9AC-HJ-NP-Z]{58,}", hint="-KEY-"
    ),
    # work, talk, money, mail, watch
    *_iter_word_shapes("linear-key", "lin_api_ lin_oauth_", "[A-Za-z0-9]{40,}", hint="lin_"),
    *_iter_word_shapes("notion-token", "ntn_", "[A-Za-z0-9]{40,}"),
    *_iter_word_shapes("notion-token", "secret_", "[A-Za-z0-9]{43}"),
    *_iter_word_shapes(
        "atlassian-token",
        "ATATT3 ATCTT3",
        rf"{_WORD}{{150,}}(?:=[0-9A-F]{{8}})?",
        end="",
        hint="TT3",
    ),
    *_iter_word_shapes("figma-token", "figd_", rf"{_WORD}{{40,}}", end=""),
    *_iter_word_shapes("contentful-token", "CFPAT-", rf"{_WORD}{{43}}"),
    *_iter_word_shapes("dropbox-token", "sl.u. sl.", rf"{_WORD}{{130,}}", end="", hint="sl."),
    *_iter_word_shapes(
        "stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[A-Za-z0-9]{20,}", hint="k_"
    ),
    *_iter_word_shapes(
        "shopify-token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}", hint="shp"
    ),
    *_iter_word_shapes("square-secret", "sq0csp-", rf"{_WORD}{{43}}", hint="sq0"),
    *_iter_word_shapes("sendgrid-key", "SG.", rf"{_WORD}{{22}}\.{_WORD}{{43}}"),
    *_iter_word_shapes("brevo-key", "xkeysib-", rf"{_HEX}{{64}}-[A-Za-z0-9]{{16}}"),
    *_iter_word_shapes("twilio-key", "SK", rf"{_HEX}{{32}}"),
    *_iter_word_shapes("mailgun-key", "key-", rf"(?<![_-]key-){_HEX}{{32}}"),
    *_iter_word_shapes("grafana-token", "glsa_", r"[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}"),
    *_iter_word_shapes("newrelic-key", "NRAK-", "[A-Z0-9]{27}"),
    *_iter_word_shapes("sentry-token", "sntryu_", rf"{_HEX}{{64}}", hint="sntry"),
    *_iter_word_shapes(
        "sentry-token", "sntrys_eyJ", r"[A-Za-z0-9]{40,}[A-Za-z0-9+/=_]*", hint="sntry"
    ),
    *_iter_word_shapes("dynatrace-token", "dt0c01.", r"[A-Z2-7]{24}\.[A-Z2-7]{64}"),
    *_iter_word_shapes("mapbox-token", "sk.eyJ", rf"{_WORD}{{40,}}\.{_WORD}{{20,}}", hint="eyJ"),
    *_iter_word_shapes(
        "1password-token", "ops_eyJ", "[A-Za-z0-9]{40,}[A-Za-z0-9+/]*={0,2}", hint="eyJ"
    ),
    *_iter_word_shapes(
        "jwt", "eyJ", rf"{_WORD}{{10,}}\.(?:e[yw]{_WORD}{{4,}}|e30)\.{_WORD}{{16,}}", end=""
    ),
    *_iter_word_shapes(
        "jwt",  # encrypted: five parts, of which the second may be empty
        "eyJ",
        rf"{_WORD}{{10,}}\.(?:{_WORD}{{20,}})?\.{_WORD}{{12,32}}\.{_WORD}{{2,}}\.{_WORD}{{16,}}",
        end="",
    ),
    *_iter_word_shapes(
        "aws-bedrock-key", "ABSKQmVkcm9ja0FQSUtleS", "[A-Za-z0-9]{10,}[A-Za-z0-9+/]*={0,2}"
    ),
    *iter_shapes("telegram-token", "AA", rf"(?<=\d{{8}}:AA)(?P<secret>{_WORD}{{33}})(?!{_WORD})"),
    *_iter_word_shapes("slack-token", "xox", r"[a-eoprs]-\d[A-Za-z0-9-]{20,}"),
    *_iter_word_shapes("slack-token", "xapp-", r"\d[A-Za-z0-9-]{20,}"),
    *iter_shapes(
        "terraform-token",
        "atlasv1.",
        rf"(?<=[A-Za-z0-9]{{14}}\.atlasv1\.)(?P<secret>{_WORD}{{60,}})",
    ),
    *_iter_word_shapes(
        "grafana-token", "glc_eyJ", "[A-Za-z0-9]{30,}[A-Za-z0-9+/]*={0,2}", hint="eyJ"
    ),
    Shape(
        "discord-token",
        ".",
        ".",
        (
            rf"\.(?:(?<=(?:{_DIGITS}){{6}}\.)|(?<=(?:{_DIGITS}){{6}}[A-Za-z0-9]{{2}}\.))"
            rf"(?P<secret>{_WORD}{{6}}\.{_WORD}{{27,}})"
        ),
    ),
    *iter_shapes(
        "azure-secret",
        "Q~",
        r"(?<=[A-Za-z0-9_~.]{3}\dQ~)(?P<secret>[A-Za-z0-9_~.-]{31,34})(?![A-Za-z0-9_~.-])",
    ),
)
"""Shapes that lie in one run of at least `SHORTEST` characters, so that their patterns need only
be tried on such runs."""

FRAMED_SHAPES = (
    *_iter_word_shapes("aws-key-id", "AKIA ASIA", r"[A-Z2-7]{16}"),
    *iter_shapes(
        "aws-secret-key",
        "ecret_access_key ECRET_ACCESS_KEY ecretAccessKey",
        rf"{_IS}(?P<secret>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
    ),
    *_iter_word_shapes(
        "aws-session-token", "IQoJb3JpZ2luX2Vj FwoGZXIvYXdz", "[A-Za-z0-9+/]{100,}={0,2}"
    ),
    *iter_shapes(
        "slack-webhook",
        "hooks.slack.com/",
        r"(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{24,})",
    ),
    *iter_shapes("discord-webhook", "/api/webhooks/", rf"\d{{15,}}/(?P<secret>{_WORD}{{50,}})"),
    *_iter_word_shapes("stripe-webhook-secret", "whsec_", r"[A-Za-z0-9+/]{24,}={0,2}"),
    *iter_shapes(
        "google-refresh-token",
        "efresh_token EFRESH_TOKEN efreshToken",
        rf"{_IS}(?P<secret>1//0{_WORD}{{40,}})",
    ),
    *iter_shapes("azure-key", "AccountKey=", r"(?P<secret>[A-Za-z0-9+/]{86}==)"),
    *iter_shapes("azure-key", "SharedAccessKey=", r"(?P<secret>[A-Za-z0-9+/]{43}=)"),
    *iter_shapes("azure-signature", "sig=", r"(?P<secret>[A-Za-z0-9%+/]{42,}(?:%3[Dd]|=))"),
    *iter_shapes("heroku-key", "HEROKU_API_KEY", rf"{_IS}(?P<secret>{_UUID})"),
    *iter_shapes("npm-token", "_authToken", rf"{_IS}{_HEADER}"),
    Shape(
        "private-key",
        "PRIVATE KEY",
        "-----BEGIN ",
        (
            r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
            rf"(?:{_NEW_LINE}[A-Za-z-]{{3,20}}: [^\n\\]{{1,100}}){{0,5}}"
            rf"(?:{_NEW_LINE}[A-Za-z0-9+/=]{{16,}}){{1,400}}"
            rf"(?:{_NEW_LINE}[A-Za-z0-9+/=]{{1,15}})?"
            rf"(?:{_NEW_LINE}{_END_OF_KEY})?"
        ),
    ),
    *iter_shapes(
        "authorization-header",
        "uthorization UTHORIZATION",
        rf"{_IS}(?i:bearer|basic|token|api-?key|key|negotiate)\s{{1,3}}{_HEADER}",
    ),
    *iter_shapes(
        "authorization-header",
        "Bearer bearer",
        r"\s{1,3}(?=[A-Za-z0-9._~+/=-]{0,60}\d)(?P<secret>[A-Za-z0-9._~+/=-]{24,})",
    ),
    *iter_shapes("authorization-header", "api-key Api-Key API-Key API-KEY", rf"{_IS}{_HEADER}"),
    *iter_shapes(
        "url-password",
        "://",
        r"(?P<user>[A-Za-z0-9._~%+-]{0,64}):"
        rf"(?!(?:{_STAND_IN}|(?P=user)|\d{{1,5}})@)"
        r"(?P<secret>[A-Za-z0-9._~!*+,;=^%][A-Za-z0-9._~!$&*+,;=^%@()-]{2,127})@(?=[A-Za-z0-9\[])",
    ),
)
"""Shapes that are identified by the text around them, or that are too short for a run."""

SHAPES = (*WORD_SHAPES, *FRAMED_SHAPES)
