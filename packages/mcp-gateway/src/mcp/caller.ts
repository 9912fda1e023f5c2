import type { ServerContext } from '@modelcontextprotocol/server'

import type { Principal } from '../internal/principal.ts'

/** The caller of a request, and the connection that it uses. */
export interface Caller {
  readonly principal: Principal
  /** Namespace of its files, for anonymous callers with a session. */
  readonly scope?: string | undefined
  /** IP address, where it is known. Files of anonymous callers are counted by it. */
  readonly address?: string | undefined
  /** Resolves when the client can take more, or has left. @default at once */
  readonly writable?: (() => Promise<void> | undefined) | undefined
  /** Returns true if there is memory for a response to this owner (see `slotOwnerOf()`). @default always */
  readonly hasRoom?: ((owner: string) => boolean) | undefined
}

/** The callers of requests in flight, for servers of the SDK. */
export class Callers {
  readonly #byRequest = new WeakMap<Request, Caller>()
  readonly #local: Caller | undefined

  /** @param local caller of requests without HTTP. @default such requests are refused */
  constructor(local?: Caller) {
    this.#local = local
  }

  set(request: Request, caller: Caller): void {
    this.#byRequest.set(request, caller)
  }

  /** @throws for a request that was not authenticated */
  of(context: ServerContext): Caller {
    const request = context.http?.req
    const caller = request ? this.#byRequest.get(request) : this.#local
    if (!caller) throw new Error('A request without a caller')
    return caller
  }
}
