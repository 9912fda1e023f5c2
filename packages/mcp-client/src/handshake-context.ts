import { AsyncLocalStorage } from 'node:async_hooks'

interface Handshake {
  readonly of: HandshakeContext
  isOver: boolean
  /** The one that waits for what this one is part of, such as a directory that is asked through a client. */
  readonly outer: Handshake | undefined
}

/** One for all: on Node 22, every storage that was ever used slows down each asynchronous step, and stays. */
const storage = new AsyncLocalStorage<Handshake | undefined>()

/**
 * Knows whether it is asked from inside a handshake that is still going on: by a header function, a
 * directory or a store that the handshake waits for. A call made there would wait for itself.
 *
 * Streams and sockets that a handshake opens keep its async context for ever; that is why the mark says
 * when it is over.
 */
export class HandshakeContext {
  get isInside(): boolean {
    let handshake = stillGoingOn(storage.getStore())
    while (handshake !== undefined && handshake.of !== this) {
      handshake = stillGoingOn(handshake.outer)
    }
    return handshake !== undefined
  }

  async run<T>(handshake: () => Promise<T>): Promise<T> {
    const outer = stillGoingOn(storage.getStore())
    const mark: Handshake = { of: this, isOver: false, outer }
    try {
      return await storage.run(mark, handshake)
    } finally {
      mark.isOver = true
    }
  }

  /** For what is told and not waited for: a listener may call the client. */
  outside(tell: () => void): void {
    storage.run(undefined, tell)
  }
}

function stillGoingOn(handshake: Handshake | undefined): Handshake | undefined {
  let one = handshake
  while (one?.isOver === true) one = one.outer
  return one
}
