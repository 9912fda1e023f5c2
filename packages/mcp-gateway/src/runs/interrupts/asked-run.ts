import type { RunEnding, RunOrder } from '../run-ending.ts'
import { randomHex } from '../../internal/random-hex.ts'
import { canonicalHash } from './canonical-hash.ts'
import type { ResumeClaim } from './request-state.ts'
import type { WaitingRun } from './waiting-run.ts'

/** A run that just asked, and what it was before: nothing in its first round. */
export interface AskedRun {
  readonly order: RunOrder
  readonly ending: Extract<RunEnding, { type: 'asked' }>
  readonly previous?: WaitingRun | undefined
  /** How long it waits. Milliseconds since 1970. */
  readonly expiresAt: number
}

/** What is kept of a run that asked, until its answer comes. */
export function askedRun({ order, ending, previous, expiresAt }: AskedRun): WaitingRun {
  const { runId, tool, request } = order
  const { questions, beginsAnew, state, files, progress } = ending
  return {
    phase: 'waiting',
    runId,
    agentId: tool.agent.id,
    skillId: tool.skill.id,
    tool: tool.name,
    principal: request.principal.id,
    args: previous?.args ?? canonicalHash(request.arguments ?? {}),
    key: previous?.key ?? randomHex(8),
    round: (previous?.round ?? 0) + 1,
    questions,
    state,
    beginsAnew,
    files,
    progress,
    answered: previous?.answered,
    expiresAt,
  }
}

/** Whether whoever brings this answer is whoever the run belongs to. */
export function isOf(row: WaitingRun, { tool, request }: RunOrder, claim: ResumeClaim): boolean {
  return (
    row.principal === request.principal.id &&
    row.agentId === tool.agent.id &&
    row.skillId === tool.skill.id &&
    (claim.args === undefined ? claim.key === row.key : claim.tool === row.tool)
  )
}

/** A `resume` argument may come without the others; a sealed state never does. */
export function isSameCall(row: WaitingRun, { request }: RunOrder, claim: ResumeClaim): boolean {
  if (claim.args === undefined && request.arguments === undefined) return true
  return (
    canonicalHash(request.arguments ?? {}) === row.args && (claim.args ?? row.args) === row.args
  )
}
