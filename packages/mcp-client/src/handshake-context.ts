import { AsyncLocalStorage } from 'node:async_hooks'

interface Handshake {
  readonly of: HandshakeContext
  isOver: boolean
  /** The handshake that waits for this one, such as one whose directory uses another client. */
  readonly outer: Handshake | undefined
}

/** One for all clients: on Node 22, each storage that was ever used slows down every asynchronous step. */
const storage = new AsyncLocalStorage<Handshake | undefined>()

/**
 * Detects calls from inside a handshake in progress: by a header function, a directory or a store that the handshake
 * waits for. Such a call would wait for itself.
 *
 * Streams and sockets that a handshake opens keep its async context. Therefore the context records when the handshake
 * is over.
 */
export class HandshakeContext {
  get isInside(): boolean {
    let handshake = inProgress(storage.getStore())
    while (handshake !== undefined && handshake.of !== this) {
      handshake = inProgress(handshake.outer)
    }
    return handshake !== undefined
  }

  async run<T>(handshake: () => Promise<T>): Promise<T> {
    const outer = inProgress(storage.getStore())
    const mark: Handshake = { of: this, isOver: false, outer }
    try {
      return await storage.run(mark, handshake)
    } finally {
      mark.isOver = true
    }
  }

  /** Emits an event. Listeners may call the client, because the handshake does not wait for them. */
  outside(emit: () => void): void {
    storage.run(undefined, emit)
  }
}

function inProgress(handshake: Handshake | undefined): Handshake | undefined {
  let one = handshake
  while (one?.isOver === true) one = one.outer
  return one
}
