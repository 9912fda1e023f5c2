import { isRecord } from '@x/internal'
import type { JsonRpcMessage, JsonRpcRequest, RequestId } from '../json-rpc.ts'

const BLOCK_SIZE = 2 ** 20

/**
 * Ids on the wire. In a session that we opened they are the client's own. In a resumed one other
 * processes have used the small numbers already, and servers keep tables by id: there a random block
 * makes them unique without coordination. They stay numbers, because servers mishandle string ids
 * (rust-sdk #1017).
 */
export class RequestIds {
  readonly #offset: number
  #highest = 0

  private constructor(offset: number) {
    this.#offset = offset
  }

  static asTheyAre(): RequestIds {
    return new RequestIds(0)
  }

  /** `random` gives 0 … 1. The block is a 31-bit number, so that every id is a safe integer. */
  static inRandomBlock(random: () => number): RequestIds {
    return new RequestIds((1 + Math.floor(random() * (2 ** 31 - 1))) * BLOCK_SIZE)
  }

  toWire(id: RequestId): RequestId {
    if (typeof id !== 'number') return id
    if (id > this.#highest) this.#highest = id
    return this.#offset + id
  }

  /** The client's id; `undefined` if it is one of another process. */
  fromWire(id: RequestId): RequestId | undefined {
    if (this.#offset === 0) return id
    const number = Number(id) // "5" for 5 is seen in the field (python-sdk PR #1720)
    if (Number.isNaN(number)) return id
    const own = number - this.#offset
    return own >= 0 && own <= this.#highest ? own : undefined
  }

  /** The request with its id, and its progress token, as they go over the wire. */
  request(message: JsonRpcRequest): JsonRpcRequest {
    if (this.#offset === 0) return message
    const meta = message.params?.['_meta']
    const token = isRecord(meta) ? meta['progressToken'] : undefined
    const params =
      typeof token === 'number' && isRecord(meta)
        ? { ...message.params, _meta: { ...meta, progressToken: this.toWire(token) } }
        : message.params
    return { ...message, id: this.toWire(message.id), ...(params === undefined ? {} : { params }) }
  }

  /** A progress notification with the client's own token; `undefined` if it is for another process. */
  progress(message: JsonRpcMessage): JsonRpcMessage | undefined {
    if (this.#offset === 0 || !('method' in message)) return message
    const token = message.params?.['progressToken']
    if (message.method !== 'notifications/progress' || typeof token !== 'number') return message
    const own = this.fromWire(token)
    return own === undefined
      ? undefined
      : { ...message, params: { ...message.params, progressToken: own } }
  }
}
