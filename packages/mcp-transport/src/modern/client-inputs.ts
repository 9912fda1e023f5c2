import { randomUUID } from 'node:crypto'
import type { JsonRpcMessage, JsonRpcResponse, RequestId } from '../json-rpc.ts'
import { capabilityFor, clientRequestFrom } from './input-required.ts'
import type { InputRequest } from './input-required.ts'
import { INTERNAL_ERROR } from './local-error.ts'

/** Why an input could not be had: the original request fails with this. */
export class InputError extends Error {
  override readonly name = 'InputError'
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Asks the client's own handlers for what servers embed in results: to the client these are ordinary
 * requests, with ids of ours; its replies are taken here instead of being posted.
 */
export class ClientInputs {
  readonly #deliver: (message: JsonRpcMessage) => void
  readonly #waiting = new Map<RequestId, (reply: JsonRpcResponse) => void>()
  #asked = 0

  constructor(deliver: (message: JsonRpcMessage) => void) {
    this.#deliver = deliver
  }

  /**
   * All answers, by the keys of the requests; they are asked for in parallel, and the first failure
   * stops the rest.
   *
   * @throws InputError
   */
  async gather(
    requests: Readonly<Record<string, InputRequest>>,
    capabilities: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>> {
    for (const { method } of Object.values(requests)) {
      const capability = capabilityFor(method)
      if (capability !== undefined && capabilities[capability] !== undefined) continue
      throw new InputError(
        INTERNAL_ERROR,
        `The server requires an input (${method}) that this client does not offer`,
      )
    }
    const stop = new AbortController()
    const either = AbortSignal.any([signal, stop.signal])
    try {
      const entries = Object.entries(requests).map(async ([key, request]) => {
        const answer = await this.#ask(request, either)
        return [key, answer] as const
      })
      return Object.fromEntries(await Promise.all(entries))
    } finally {
      stop.abort()
    }
  }

  /** Takes the client's reply. Returns false if it is not one to an input. */
  take(reply: JsonRpcResponse): boolean {
    const { id } = reply
    const settle = id === undefined || id === null ? undefined : this.#waiting.get(id)
    settle?.(reply)
    return settle !== undefined
  }

  #ask(request: InputRequest, signal: AbortSignal): Promise<unknown> {
    if (signal.aborted) return Promise.reject(gaveUp())
    const id = `input-${++this.#asked}`
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(id)
        const params = { requestId: id, reason: 'The request that needed this has ended' }
        this.#deliver({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
        reject(gaveUp())
      }
      this.#waiting.set(id, (reply) => {
        this.#waiting.delete(id)
        signal.removeEventListener('abort', onAbort)
        if ('result' in reply) resolve(reply.result)
        else reject(new InputError(reply.error.code, reply.error.message))
      })
      signal.addEventListener('abort', onAbort, { once: true })
      this.#deliver(clientRequestFrom(request, id, randomUUID))
    })
  }
}

function gaveUp(): InputError {
  return new InputError(INTERNAL_ERROR, 'The request was given up')
}
