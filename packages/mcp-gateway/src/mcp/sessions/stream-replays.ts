/**
 * Streams that are about to be read again from some event on. The SDK reads what was kept, and only then puts the new
 * reader in the place of the old one: what is said in between would be written for nobody.
 */
export class StreamReplays {
  /** Made when it is needed: few streams are lost. */
  #replays: Map<string, Promise<unknown>> | undefined

  /** @returns to be called when all that was kept is read. The SDK puts the reader in its place in that same turn */
  begin(stream: string): () => void {
    const replays = (this.#replays ??= new Map())
    const before = replays.get(stream)
    let resolve: () => void
    const replay = new Promise<void>((done) => {
      resolve = done
    }).then(() => before)
    replays.set(stream, replay)
    const end = (): void => {
      if (replays.get(stream) === replay) replays.delete(stream)
      resolve()
    }
    return () => void setImmediate(end)
  }

  /** Resolves when an event that was kept may be written to whoever reads the stream. @returns `undefined`: now */
  endOf(stream: string): Promise<unknown> | undefined {
    return this.#replays?.get(stream)
  }
}
