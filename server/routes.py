"""Every route of the server."""

from __future__ import annotations

from .endpoints import completions, description, generate, models, operation, playground, tokens
from .request import SCHEMA as GENERATE_SCHEMA
from .route import Response, Route

_EVENTS = "text/event-stream"

_NOT_MODIFIED = Response(status=304)

# Of what needs the model: a body that is too large or does not fit the context, or is wrong; a model that is
# taken; a server that ends.
_GENERATION_REFUSALS = (413, 422, 429, 503)
_TOKENS_REFUSALS = (413, 422, 503)

ROUTES = (
    Route(
        "POST",
        "/generate",
        generate.GenerateHandler,
        "continues a prompt",
        (Response(generate.ANSWER, texts=(_EVENTS,)),),
        body=GENERATE_SCHEMA,
        refusals=_GENERATION_REFUSALS,
    ),
    Route(
        "POST",
        "/v1/completions",
        completions.CompletionsHandler,
        "the same, for clients of OpenAI's API",
        (Response(completions.ANSWER, texts=(_EVENTS,)),),
        body=completions.SCHEMA,
        refusals=_GENERATION_REFUSALS,
    ),
    Route(
        "GET",
        "/v1/models",
        models.ModelsHandler,
        "the one model, for them",
        (Response(models.LIST),),
    ),
    Route(
        "GET",
        "/v1/models/{name}",
        models.ModelHandler,
        "a model by its name",
        (Response(models.MODEL),),
        refusals=(404,),
    ),
    Route(
        "POST",
        "/tokenize",
        tokens.TokenizeHandler,
        "the token ids of a text",
        (Response(tokens.TOKENIZE_ANSWER),),
        body=tokens.TOKENIZE_SCHEMA,
        refusals=_TOKENS_REFUSALS,
    ),
    Route(
        "POST",
        "/detokenize",
        tokens.DetokenizeHandler,
        "the text of token ids",
        (Response(tokens.DETOKENIZE_ANSWER),),
        body=tokens.DETOKENIZE_SCHEMA,
        refusals=_TOKENS_REFUSALS,
    ),
    Route(
        "GET",
        "/",
        description.RootHandler,
        "the routes; for browsers a page to try them",
        (Response(description.ROUTES_ANSWER, texts=(playground.PAGE_TYPE,)), _NOT_MODIFIED),
    ),
    Route(
        "GET",
        "/playground/{name}",
        playground.PlaygroundHandler,
        "the files of that page",
        (Response(texts=playground.TYPES), _NOT_MODIFIED),
        refusals=(404,),
    ),
    Route(
        "GET",
        "/openapi.json",
        description.OpenApiHandler,
        "the routes with their bodies and answers, as OpenAPI",
        (Response({"type": "object", "required": ["openapi", "info", "paths"]}),),
    ),
    Route(
        "GET",
        "/health",
        operation.HealthHandler,
        "whether the server is up",
        (Response(operation.status("ok")),),
    ),
    Route(
        "GET",
        "/ready",
        operation.ReadyHandler,
        "whether it takes requests",
        (Response(operation.status("ready")), Response(operation.status("draining"), status=503)),
    ),
    Route(
        "GET",
        "/metrics",
        operation.MetricsHandler,
        "counters, for Prometheus",
        (Response(texts=("text/plain", "application/openmetrics-text")),),
    ),
)
