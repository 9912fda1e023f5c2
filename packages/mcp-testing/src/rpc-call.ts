import type { RpcId } from './rpc-message.ts'
import type { LegacySession } from './legacy-session.ts'

/** A JSON-RPC request that is being answered. */
export interface RpcCall {
  readonly session: LegacySession
  readonly id: RpcId
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
  /** Aborts when the client cancels it. */
  readonly signal: AbortSignal
  /** Sends a notification on the stream of the answer, if it is one. */
  readonly notify: (method: string, params: Readonly<Record<string, unknown>>) => void
}

/** Answers with a JSON-RPC error. */
export class RpcFailure extends Error {
  override readonly name = 'RpcFailure'
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}
