import { GatewayError } from '../../errors.ts'

export function listFrom(reply: unknown): readonly unknown[] {
  if (Array.isArray(reply)) return reply
  throw unexpected('a list')
}

export function bytesFrom(reply: unknown): Uint8Array {
  if (reply instanceof Uint8Array) return reply
  throw unexpected('bytes')
}

export function textFrom(reply: unknown): string {
  if (typeof reply === 'string') return reply
  const { buffer, byteOffset, byteLength } = bytesFrom(reply)
  return Buffer.from(buffer, byteOffset, byteLength).toString()
}

export function numberFrom(reply: unknown): number {
  const number = typeof reply === 'number' ? reply : Number(textFrom(reply))
  if (Number.isFinite(number)) return number
  throw unexpected('a number')
}

export function jsonFrom(reply: unknown): unknown {
  return JSON.parse(textFrom(reply))
}

function unexpected(what: string): GatewayError {
  return new GatewayError('UNAVAILABLE', `Redis did not answer with ${what}`)
}
