/** Collects a body as UTF-8 text, up to a limit. */
export class TextBody {
  readonly #limitBytes: number
  #first: Buffer | undefined
  #rest: Buffer[] | undefined
  #bytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Returns false once the limit is passed; what came until then is kept, what comes later is not. */
  add(chunk: Buffer): boolean {
    const room = this.#limitBytes - this.#bytes
    const fits = chunk.length <= room
    const kept = fits ? chunk : chunk.subarray(0, Math.max(room, 0))
    this.#bytes += kept.length
    if (this.#first === undefined) this.#first = kept
    else (this.#rest ??= []).push(kept)
    return fits
  }

  text(): string {
    if (this.#first === undefined) return ''
    if (this.#rest === undefined) return this.#first.toString('utf8')
    return Buffer.concat([this.#first, ...this.#rest]).toString('utf8')
  }
}
