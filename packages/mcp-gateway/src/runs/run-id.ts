import { randomBytes } from 'node:crypto'

/** `run_` and 16 hex digits: names a run to clients, agents and logs alike. */
export function newRunId(random: (bytes: number) => Uint8Array = randomBytes): string {
  return `run_${Buffer.from(random(8)).toString('hex')}`
}

export function isRunId(value: unknown): value is string {
  return typeof value === 'string' && /^run_[0-9a-f]{16}$/.test(value)
}
