"""What `explain` says about memory."""

from collections.abc import Sequence

from scanjit.schedule.nests import Lifetime, Program, RootsOfUnity


def notes(program: Program, lives: Sequence[Lifetime], planned: tuple[int, Sequence[int]] | None) -> list[str]:
    """Lines about the temporaries in the workspace, and about statements that run once for many calls. `planned` has
    the bytes of the workspace and of each temporary for the last new sizes; None if there was no call yet."""
    listed = ", ".join(f"{life.buffer.name} {tuple(life.buffer.shape)}" for life in lives) or "none"
    text = f"memory: {len(lives)} temporaries in one workspace, which is kept between calls: {listed}"
    if planned is not None:
        workspace, nbytes = planned
        text += f"; {workspace} bytes for the last new sizes, {sum(nbytes)} without sharing"
    roots = [statement.title for statement in program.once if isinstance(statement, RootsOfUnity)]
    once = [statement.title for statement in program.once if not isinstance(statement, RootsOfUnity)]
    titles = (once, "for each value of the shared variables"), (roots, "for each length")
    return [text, *(f"{', '.join(some)}: once {what}, not in every call" for some, what in titles if some)]
