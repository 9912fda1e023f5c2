import { AsyncLocalStorage } from 'node:async_hooks'

interface Handshake {
  isOver: boolean
}

/**
 * Knows whether it is asked from inside a handshake that is still going on: by a header function, a
 * directory or a store that the handshake waits for. A call made there would wait for itself.
 *
 * Streams and sockets that a handshake opens keep its async context for ever; that is why the mark says
 * when it is over.
 */
export class HandshakeContext {
  readonly #storage = new AsyncLocalStorage<Handshake | undefined>()

  get isInside(): boolean {
    return this.#storage.getStore()?.isOver === false
  }

  async run<T>(handshake: () => Promise<T>): Promise<T> {
    const mark: Handshake = { isOver: false }
    try {
      return await this.#storage.run(mark, handshake)
    } finally {
      mark.isOver = true
    }
  }

  /** For what is told and not waited for: a listener may call the client. */
  outside(tell: () => void): void {
    this.#storage.run(undefined, tell)
  }
}
