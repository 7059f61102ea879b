"""The rule of each op: how it is lowered. A new op needs a line here only if its class has no rule."""

from scanjit import ir
from scanjit.ops import Elementwise, Reduction, View
from scanjit.ops.branch import IFELSE
from scanjit.ops.contraction import Contraction
from scanjit.ops.decompositions import EIGH, QR, SVD
from scanjit.ops.extremes import ArgReduction
from scanjit.ops.fourier import FOURIER, FROM_HALF_SPECTRUM, HALF_SPECTRUM
from scanjit.ops.guest import CALL
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.narrow import CONTRACT_PAIRS
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import CONCATENATE, COPY, IOTA, RESHAPE, SET_SLICE
from scanjit.ops.sorting import ARGPARTITION, ARGRANKED, ARGSORT, PARTITION, RANKED, SEARCHED, SORT, WHERE_TRUE
from scanjit.ops.systems import CHOLESKY, LU, TRIANGULAR_SOLVE
from scanjit.schedule.lower.lowering import LoweringRules
from scanjit.schedule.lower.ops import lapack
from scanjit.schedule.lower.ops.assemblies import ConcatenateRule, CopyRule, ReshapeRule
from scanjit.schedule.lower.ops.changes import ScatterRule, SetSliceRule
from scanjit.schedule.lower.ops.contraction import ContractionRule
from scanjit.schedule.lower.ops.fourier import FourierRule
from scanjit.schedule.lower.ops.guest import GuestRule
from scanjit.schedule.lower.ops.ifelse import IfElseRule
from scanjit.schedule.lower.ops.lookups import GatherRule, SearchRule
from scanjit.schedule.lower.ops.pointwise import ElementwiseRule, KnownRule, ViewRule
from scanjit.schedule.lower.ops.reduction import ReductionRule
from scanjit.schedule.lower.ops.scan import ScanRule
from scanjit.schedule.lower.ops.sorting import OrderRule, WhereTrueRule
from scanjit.target import Target

RULES = LoweringRules(
    kinds={
        Elementwise: ElementwiseRule(),
        View: ViewRule(),
        Reduction: ReductionRule(),
        ArgReduction: ReductionRule(),
        Contraction: ContractionRule(),
    },
    ops={
        ir.CONSTANT: KnownRule(),
        ir.SIZE: KnownRule(),
        IOTA: KnownRule(),
        GATHER: GatherRule(),
        CONCATENATE: ConcatenateRule(),
        RESHAPE: ReshapeRule(),
        COPY: CopyRule(),
        SET_SLICE: SetSliceRule(),
        SCATTER: ScatterRule(),
        CALL: GuestRule(),
        ARGSORT: OrderRule(finds_places=True),
        SORT: OrderRule(finds_places=False),
        ARGRANKED: OrderRule(finds_places=True),
        RANKED: OrderRule(finds_places=False),
        ARGPARTITION: OrderRule(finds_places=True, whole=True),
        PARTITION: OrderRule(finds_places=False, whole=True),
        WHERE_TRUE: WhereTrueRule(),
        SEARCHED: SearchRule(),
        FOURIER: FourierRule(),
        HALF_SPECTRUM: FourierRule(),
        FROM_HALF_SPECTRUM: FourierRule(),
        CHOLESKY: lapack.LapackRule(lapack.cholesky),
        LU: lapack.LapackRule(lapack.lu),
        EIGH: lapack.LapackRule(lapack.eigh, small=True),
        QR: lapack.LapackRule(lapack.qr, small=True),
        SVD: lapack.LapackRule(lapack.svd, small=True),
        TRIANGULAR_SOLVE: lapack.LapackRule(lapack.triangular_solve),
        IFELSE: IfElseRule(),
        SCAN: ScanRule(),
    },
)


APART = LoweringRules({**RULES.ops, CONTRACT_PAIRS: ContractionRule(apart=True)}, RULES.kinds)
"""The rules for targets that multiply no pairs."""


def rules_for(target: Target) -> LoweringRules:
    """The rules for a target."""
    return RULES if target.multiplies_pairs or target.has_matrices else APART
