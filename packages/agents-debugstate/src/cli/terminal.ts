import { styleText } from 'node:util'

/** A stream that text is written to: a terminal, a file, a pipe. */
export interface TextStream {
  write(text: string | Uint8Array): unknown
  readonly isTTY?: boolean
}

type Style = Parameters<typeof styleText>[0]

/** Writes text to a stream, for people where it is a terminal, and for programs elsewhere. */
export class Terminal {
  readonly isTerminal: boolean
  readonly #stream: TextStream
  readonly #isColored: boolean

  /** `env`: `NO_COLOR` set to anything switches colors off (no-color.org). */
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

  /** Text of others, which could otherwise move the cursor or hide something. */
  harmless(text: string): string {
    return this.isTerminal ? text.replace(/[^\P{C}\n\t]/gu, escapeOf) : text
  }
}

function escapeOf(character: string): string {
  return `\\u{${character.codePointAt(0)?.toString(16)}}`
}
