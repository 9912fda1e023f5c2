import { randomHex } from '../internal/random-hex.ts'

/** `run_` and 16 hex digits: names a run to clients, agents and logs alike. */
export function newRunId(): string {
  return `run_${randomHex(8)}`
}

export function isRunId(value: unknown): value is string {
  return typeof value === 'string' && /^run_[0-9a-f]{16}$/.test(value)
}
