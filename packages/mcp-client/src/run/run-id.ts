import { createHash, randomBytes } from 'node:crypto'

const ID = /^run_[0-9a-f]{16}$/

export function isRunId(id: string): boolean {
  return ID.test(id)
}

export function newRunId(): string {
  return `run_${randomBytes(8).toString('hex')}`
}

/**
 * The id that all runs of a LangGraph thread have, in whatever process: `runInSessionScope(fn, { id })` then
 * goes on with the sessions of the run that stopped in that thread, and nothing needs to be stored for it.
 */
export function runIdOf(threadId: string): string {
  return `run_${createHash('sha256').update(threadId).digest('hex').slice(0, 16)}`
}
