"""A certificate as a draft for the OpenDP registry of deployments.

https://github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml of July 2026 (3e9c812).
What neither the certificate nor its author says is left out, and named in a comment.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dpaudit.app.report.evaluation import RELATIONS, TRUST, mechanisms, numerics, tests
from dpaudit.app.text.conditions import sentences
from dpaudit.app.text.output import counted
from dpaudit.app.text.tables import bound_figure
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.statement import NOT_STATED
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import ZCDP, ApproxDP, PureDP
from dpaudit.claims.relations import TrustModel
from dpaudit.errors import NotCertifiable
from dpaudit.page.printable import all_printable

#: The registry's fields, in its order; None stands where nothing that dpaudit has says it.
_Fields = dict[str, Any]

_VARIANTS: Final = {
    "pure-dp": "Pure DP",
    "approx-dp": "Approximate DP",
    "zcdp": "Zero-concentrated DP",
    "rdp": "Renyi DP",
}
_MODELS: Final = {TrustModel.CENTRAL: "Central", TrustModel.LOCAL: "Local", TrustModel.JOINT: None}


def registry_entry(certificate: Certificate, computed: Sequence[Bound]) -> str:
    """The draft as YAML, with the proved figures; `computed` has the total as (epsilon, delta).

    Raises `NotCertifiable` for a certificate whose output must not be published.
    """
    if certificate.against_publishing:
        what = f"no registry entry: {'; '.join(certificate.against_publishing)}"
        why, remedy = "a register would repeat a guarantee that does not hold", "register a proved run"
        raise NotCertifiable(what, where=f"certificate of {certificate.algorithm!r}", why=why, remedy=remedy)
    head = [
        "# A draft for the OpenDP registry of deployments, made by dpaudit from a certificate.",
        "# Fields in comments are known neither from the certificate nor from its author's statement.",
    ]
    return "\n".join([*head, *_lines(_entry(certificate, computed), 0), ""])


def _entry(certificate: Certificate, computed: Sequence[Bound]) -> _Fields:
    said = {name: None if text == NOT_STATED else text for name, text in certificate.statement}
    relation = certificate.neighbouring
    one = (
        certificate.unit if certificate.group_size == 1 else f"{certificate.group_size} x {certificate.unit}"
    )
    adjacent = f"Neighbouring data sets differ in one unit ({one}), {RELATIONS[relation]} ({relation})."
    guarantee, parameters, details = _parameters(certificate, computed)
    basic = {
        "name": None,
        "data_curators": said["data_curator"] and [said["data_curator"]],
        "intended_use": said["intended_use"],
        **dict.fromkeys(("data_product_type", "data_product_region", "description", "publication_date")),
        "data_product_sector": None,
    }
    variant = {
        "variant_name": _VARIANTS.get(guarantee, "Custom"),
        "data_domain": said["data_domain"],
        "unprotected_quantities": said["unprotected_quantities"],
    }
    loss = {
        "privacy_unit": one,
        "privacy_unit_details": _together(adjacent, said["unit"], said["contribution_bound"]),
        "privacy_parameters": parameters,
        "privacy_parameters_details": details,
    }
    model = {
        "model_name": _MODELS[certificate.trust_model],
        "model_name_details": f"{TRUST[certificate.trust_model]}.",
        "actors": said["trust"],
        "release_type": None,
        "release_type_details": said["composition_scope"],
        **dict.fromkeys(("data_source_type", "data_source_type_details", "access_type")),
        "access_type_details": said["access"],
    }
    total = counted(len(certificate.releases), "release", "releases")
    accounting = {
        "post_processing": said["postprocessing"],
        "composition": f"{total} of one run, composed by {certificate.bounds[0].method}.",
    }
    implementation = {
        "preprocessing_and_hyperparameter_tuning": _together(
            said["preprocessing"], said["hyperparameter_tuning"]
        ),
        "mechanisms": f"{mechanisms(certificate)}; {numerics(certificate)}.",
        "justification": said["delta_rationale"],
    }
    trusted = " ".join(f"{sentence.rstrip('.')}." for sentence in sentences(certificate.not_checked))
    administrative = {
        "sources": None,
        "notes": f"Ledger {certificate.ledger_hash}. Tested: {tests(certificate)}. Not checked: {trusted}",
        "registry_authors": None,
    }
    return {
        "url_slug": None,
        "status": "Draft",
        "tier": None,
        "deployment": {
            "basic": basic,
            "dp_variant": variant,
            "privacy_loss": loss,
            "deployment_model": model,
            "accounting": accounting,
            "implementation": implementation,
            "administrative": administrative,
        },
    }


def _parameters(
    certificate: Certificate, computed: Sequence[Bound]
) -> tuple[str, dict[str, float] | None, str]:
    """The variant's kind, its proved parameters, and the claim and its other forms in words."""
    best, claim = certificate.bounds[0], certificate.claim.guarantee
    words = [f"Proved by {best.method}; claimed: {claim}."]
    words += [f"As approximate DP: {bound_figure(one)} by {one.method}." for one in computed[:1]]
    match best.guarantee:
        case PureDP(epsilon=epsilon):
            return "pure-dp", {"epsilon": epsilon}, " ".join(words)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return "approx-dp", {"epsilon": epsilon, "delta": delta}, " ".join(words)
        case ZCDP(rho=rho):
            return "zcdp", {"rho": rho}, " ".join(words)
        case other:
            # The registry has no field for mu or for the order of Renyi DP: the figures are in the words.
            return other.kind, None, " ".join([f"Proved: {bound_figure(best)}.", *words])


def _together(*texts: str | None) -> str | None:
    return " ".join(text for text in texts if text) or None


def _lines(fields: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Fields as YAML: texts in quotes, numbers as YAML 1.1 and 1.2 read them."""
    space = "  " * depth
    for name, value in fields.items():
        if value is None:
            yield f"{space}# {name}:"
        elif isinstance(value, Mapping):
            yield f"{space}{name}:"
            yield from _lines(value, depth + 1)
        elif isinstance(value, list):
            yield f"{space}{name}:"
            yield from (f"{space}  - {_text(item)}" for item in value)
        else:
            yield f"{space}{name}: {_number(value) if isinstance(value, float) else _text(value)}"


def _text(value: str) -> str:
    """A string of JSON, which every version of YAML reads as the same string."""
    return json.dumps(all_printable(value), ensure_ascii=True)


def _number(value: float) -> str:
    """The double in digits that YAML takes for a number: it wants a point before an exponent."""
    digits, exponent, power = repr(value).partition("e")
    return digits + (".0" if exponent and "." not in digits else "") + exponent + power
