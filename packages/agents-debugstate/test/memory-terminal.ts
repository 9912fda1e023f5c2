import { Terminal } from '../src/cli/terminal.ts'

/** A terminal, or a file, that the test reads. */
export class MemoryTerminal extends Terminal {
  readonly #chunks: Buffer[]
  readonly #waiting = new Set<() => void>()

  constructor(options: { readonly isTTY?: boolean; readonly env?: Record<string, string> } = {}) {
    const chunks: Buffer[] = []
    super(
      { write: (text) => chunks.push(Buffer.from(text)), isTTY: options.isTTY ?? false },
      options.env ?? {},
    )
    this.#chunks = chunks
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString()
  }

  override write(text: string | Uint8Array): void {
    super.write(text)
    for (const wake of this.#waiting) wake()
  }

  /** Resolves when something was written that has this text. */
  async has(part: string): Promise<void> {
    while (!this.text.includes(part)) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiting.delete(wake)
          resolve()
        }
        this.#waiting.add(wake)
      })
    }
  }
}
