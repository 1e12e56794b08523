"""Values of classes that a job registered as opaque, in a worker that has the class and in one that does not."""

import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from torch._library import opaque_object
from torch._opaque_base import OpaqueBase

from inductord.compiler.adapter import opaque

pytestmark = pytest.mark.integration


class Power(OpaqueBase):
    def __init__(self, exponent: int) -> None:
        self.exponent = exponent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Power) and self.exponent == other.exponent

    def __hash__(self) -> int:
        return hash(self.exponent)

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Power({self.exponent})", {"Power": Power}


opaque_object.register_opaque_type(Power, typ="value")


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    opaque.forget()


def arrives(value: object) -> Any:
    make, arguments = opaque.reduced(value)
    return make(*pickle.loads(pickle.dumps(arguments)))


def elsewhere(exponent: int, module: str = "of_a_job.somewhere") -> Any:
    """As it arrives where there is no such class."""
    kind = opaque.Class(module, "Power")
    return opaque.standing_in(kind, f"Power({exponent})", (("Power", kind),))


def test_a_worker_that_has_the_class_makes_the_value() -> None:
    made = arrives(Power(3))
    assert type(made) is Power
    assert made.exponent == 3


def test_one_that_does_not_tells_what_it_was_told() -> None:
    made = elsewhere(2)
    assert (made == elsewhere(2), made == elsewhere(3), made == Power(2)) == (True, False, False)
    assert opaque_object.get_opaque_obj_repr(made) == ("Power(2)", {"Power": type(made)})
    # It goes on as it came: its key is that of the rank.
    assert opaque.reduced(made) == opaque.reduced(arrives(made))
    assert opaque.reduced(made)[1][:2] == (opaque.Class("of_a_job.somewhere", "Power"), "Power(2)")


def test_code_is_loaded_with_the_class_of_the_rank() -> None:
    assert pickle.loads(pickle.dumps(opaque.by_name({"Power": Power}))) == {"Power": Power}
    shipped = pickle.dumps(opaque.by_name({"Power": type(elsewhere(2))}))
    opaque.forget()
    with pytest.raises(ModuleNotFoundError, match="of_a_job"):
        pickle.loads(shipped)


def test_what_stood_in_is_in_nobodys_way() -> None:
    elsewhere(2)
    assert "of_a_job.somewhere" in sys.modules
    elsewhere(2, "__main__")
    opaque.forget()
    assert "of_a_job.somewhere" not in sys.modules
    assert not hasattr(sys.modules["__main__"], "Power")
    elsewhere(2)
    assert "of_a_job.somewhere" in sys.modules
