"""Giving one answer: waiting for a place, the first token, the others, or the fault instead."""

from __future__ import annotations

import asyncio

from . import answers
from .answers import Answer
from .engine import Engine
from .metrics import Times
from .requests import Job
from .settings import Fault
from .wire import Connection

_AT_ONCE = (Fault.UNAVAILABLE, Fault.ERROR, Fault.RESET, Fault.HANG)
_ON_THE_WAY = (Fault.CUT, Fault.STALL)


async def generate(engine: Engine, job: Job, connection: Connection) -> None:
    """Answer one request for tokens; cancelled when the client goes away."""
    engine.numbered += 1
    number = engine.numbered
    fault = engine.next_fault()
    try:
        if engine.memory_released:
            fault = Fault.ERROR
        if fault in _AT_ONCE:
            await _fail(engine, fault, connection)
            return
        arrived = _now()
        async with engine.slots.one():
            await _run(engine, job, number, fault, arrived, connection)
    except asyncio.CancelledError:
        engine.aborted += 1
        raise


async def probe(engine: Engine) -> tuple[int, bytes]:
    """The answer of ``/health_generate``: one token, through the same queue as everybody's."""
    fault = Fault.ERROR if engine.memory_released else engine.fault_of_probes()
    if fault in (Fault.UNAVAILABLE, Fault.ERROR):
        return 500, b"Generation health check failed"
    if fault in (Fault.RESET, Fault.HANG):
        await asyncio.Event().wait()
    async with engine.slots.one():
        await _sleep(engine.settings.first_token_seconds)
    return 200, b"Generation health check OK"


async def _fail(engine: Engine, fault: Fault, connection: Connection) -> None:
    engine.metrics.failed += 1
    if fault is Fault.RESET:
        connection.reset()
    elif fault is Fault.HANG:
        await asyncio.Event().wait()
    elif fault is Fault.UNAVAILABLE:
        text = "LLM is unavailable. Please check the server logs for more details."
        connection.send(503, text.encode(), "text/plain; charset=utf-8")
    else:
        text = "the executor met an internal error"
        connection.send(500, answers.error(text, "InternalServerError", 500))


async def _run(
    engine: Engine, job: Job, number: int, fault: Fault, arrived: float, connection: Connection
) -> None:
    settings, blocks = engine.settings, engine.blocks_of(job)
    cached = engine.cache.take(
        job, capacity=settings.kv_cache_blocks, salted=settings.uses_cache_salt
    )
    answer = Answer(job, engine.name, number, cached, engine.tokens_of(job))
    scheduled = _now()
    engine.used_blocks += blocks
    try:
        await _sleep(engine.first_token_after(job, cached))
        first = _now()
        give = _stream if job.stream else _whole
        if not await give(engine, answer, fault, connection):
            engine.metrics.failed += 1
            return
        engine.metrics.finished(
            Times(arrived, scheduled, first, _now()),
            prompt=job.prompt_tokens,
            cached=cached,
            generated=answer.tokens * len(job.prompts) * job.answers,
            reason=answer.finish_reason,
        )
    finally:
        engine.used_blocks -= blocks
        engine.iterations += 1


async def _stream(engine: Engine, answer: Answer, fault: Fault, connection: Connection) -> bool:
    """Send the events one by one; False when the fault ended it."""
    connection.begin("text/event-stream; charset=utf-8")
    opening, due = answer.opening(), _now()
    for index in range(answer.tokens):
        if fault in _ON_THE_WAY and index == engine.settings.fault_after_tokens:
            await _break_off(fault, connection)
            return False
        if index:
            due += engine.settings.inter_token_seconds
            await _sleep(due - _now())
        await connection.piece(opening + answer.event(index) if not index else answer.event(index))
    await connection.piece(answer.closing())
    connection.end()
    return True


async def _whole(engine: Engine, answer: Answer, fault: Fault, connection: Connection) -> bool:
    """Send the answer when its last token is there; a fault leaves it half sent."""
    await _sleep((answer.tokens - 1) * engine.settings.inter_token_seconds)
    body = answer.whole()
    if fault in _ON_THE_WAY:
        connection.send_half(body)
        await _break_off(fault, connection)
        return False
    connection.send(200, body)
    return True


async def _break_off(fault: Fault, connection: Connection) -> None:
    if fault is Fault.STALL:
        await asyncio.Event().wait()
    connection.cut()


async def _sleep(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()
