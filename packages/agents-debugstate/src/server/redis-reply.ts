// What Redis answers is checked before it is used: a proxy in between, or another version, may say anything.
import { DebugStateStoreError } from './debug-state-store-error.ts'

export function listFrom(reply: unknown): readonly unknown[] {
  if (Array.isArray(reply)) return reply
  throw unexpected('a list')
}

export function bytesFrom(reply: unknown): Uint8Array {
  if (reply instanceof Uint8Array) return reply
  throw unexpected('bytes')
}

export function textFrom(reply: unknown): string {
  return Buffer.from(bytesFrom(reply)).toString()
}

export function numberFrom(reply: unknown): number {
  const number = typeof reply === 'number' ? reply : Number(textFrom(reply))
  if (Number.isFinite(number)) return number
  throw unexpected('a number')
}

function unexpected(what: string): DebugStateStoreError {
  return new DebugStateStoreError('CORRUPT', `Redis did not answer with ${what}`)
}
