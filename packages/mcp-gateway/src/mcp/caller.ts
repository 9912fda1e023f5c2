import type { ServerContext } from '@modelcontextprotocol/server'

import type { Principal } from '../internal/principal.ts'

/** Who sent a request, and by what. */
export interface Caller {
  readonly principal: Principal
  /** Where its files go, for callers without a name that have a session. */
  readonly scope?: string | undefined
  /** Of the network, as far as it is known: files of callers without a name are counted by it. */
  readonly address?: string | undefined
  /** Resolves when the client took what was written, or has gone. @default at once */
  readonly writable?: (() => Promise<void> | undefined) | undefined
  /** Whether there is memory for an answer to this owner (`slotOwnerOf`). @default always */
  readonly hasRoom?: ((owner: string) => boolean) | undefined
}

/** Remembers the caller of each request that is being served. Nothing of a request outlives it. */
export class Callers {
  readonly #byRequest = new WeakMap<Request, Caller>()
  readonly #local: Caller | undefined

  /** @param local whoever calls without HTTP; without one such calls are refused */
  constructor(local?: Caller) {
    this.#local = local
  }

  set(request: Request, caller: Caller): void {
    this.#byRequest.set(request, caller)
  }

  /** @throws for a request that did not come in by way of authentication */
  of(context: ServerContext): Caller {
    const request = context.http?.req
    const caller = request ? this.#byRequest.get(request) : this.#local
    if (!caller) throw new Error('A request without a caller')
    return caller
  }
}
