import { styleText } from 'node:util'

/** A stream for text: a terminal, a file or a pipe. */
export interface TextStream {
  write(text: string | Uint8Array): unknown
  readonly isTTY?: boolean
}

type Style = Parameters<typeof styleText>[0]

/** Writes text to a stream. Colors and escapes are used on a terminal only. */
export class Terminal {
  readonly isTerminal: boolean
  readonly #stream: TextStream
  readonly #isColored: boolean

  /** `env`: any value of `NO_COLOR` switches colors off (no-color.org). */
  constructor(stream: TextStream, env: Readonly<Record<string, string | undefined>>) {
    this.#stream = stream
    this.isTerminal = stream.isTTY === true
    this.#isColored = this.isTerminal && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
  }

  write(text: string | Uint8Array): void {
    this.#stream.write(text)
  }

  line(text: string): void {
    this.write(`${text}\n`)
  }

  paint(style: Style, text: string): string {
    return this.#isColored ? styleText(style, text, { validateStream: false }) : text
  }

  /** Escapes control characters of foreign text on a terminal: they could move the cursor or hide text. */
  escape(text: string): string {
    if (!this.isTerminal) return text
    return text.replace(
      /[^\P{C}\n\t]/gu,
      (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
    )
  }
}
