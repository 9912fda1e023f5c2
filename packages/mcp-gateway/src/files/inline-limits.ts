import { GatewayError } from '../errors.ts'
import { longestTextFor } from '@x/internal'
import type { FileKind } from './file-kind.ts'

/** Up to which size a result holds a file itself, and not a link to it. Raw bytes, inclusive: a file of exactly the limit is inline. */
export interface InlineOptions {
  /** For an image. @default 5_242_880 */
  readonly imageMaxBytes?: number | undefined
  /** For a sound. @default 10_485_760 */
  readonly audioMaxBytes?: number | undefined
  /** For text. @default 1_048_576 */
  readonly textMaxBytes?: number | undefined
  /** For anything else. @default 524_288 */
  readonly binaryMaxBytes?: number | undefined
  /** For all files of one result together, in the order in which they appear. @default 10_485_760 */
  readonly totalMaxBytes?: number | undefined
  /**
   * Bytes of a whole result as it is sent: JSON, with base64 and escapes. A text that is larger is cut, marked, and kept
   * whole as a file; a file that does not fit is a link. Clients of the Python SDK refuse 1 MiB. @default 1_000_000
   */
  readonly resultMaxBytes?: number | undefined
  /** For clients that take less; the first that matches counts. @default none */
  readonly clientProfiles?: readonly ClientProfile[] | undefined
}

/** What a client takes, by the name that it gives itself. */
export interface ClientProfile {
  /** Regular expression, searched in the name that the client gives itself. */
  readonly match: string
  /** @default as for all clients */
  readonly totalMaxBytes?: number | undefined
  /** @default as for all clients */
  readonly resultMaxBytes?: number | undefined
  /** Characters of all text files of one result. @default no such limit */
  readonly textMaxChars?: number | undefined
}

/** Of one result. */
export interface InlineLimits {
  readonly maxBytes: Readonly<Record<FileKind, number>>
  readonly totalMaxBytes: number
  readonly resultMaxBytes: number
  readonly textMaxChars: number
}

/** A client chooses its name: no expression is tried on more of it. */
const MAX_NAME_CHARS = 128

/**
 * @returns the limits for a client of that name
 * @throws GatewayError `CONFIG` for an expression that is none, or that a name could keep busy
 */
export function inlineLimitsFrom(
  options: InlineOptions = {},
): (clientName?: string) => InlineLimits {
  const { imageMaxBytes = 5_242_880, audioMaxBytes = 10_485_760 } = options
  const { textMaxBytes = 1_048_576, binaryMaxBytes = 524_288 } = options
  const { totalMaxBytes = 10_485_760, resultMaxBytes = RESULT_MAX_BYTES } = options
  const { clientProfiles = [] } = options
  const maxBytes = {
    image: imageMaxBytes,
    audio: audioMaxBytes,
    text: textMaxBytes,
    binary: binaryMaxBytes,
  }
  const profiles = clientProfiles.map((profile, index) => ({
    ...profile,
    expression: expressionFrom(profile.match, `inline.clientProfiles[${index}].match`),
  }))
  return (clientName = '') => {
    const name = clientName.slice(0, MAX_NAME_CHARS)
    const profile = profiles.find(({ expression }) => expression.test(name))
    return {
      maxBytes,
      totalMaxBytes: Math.min(totalMaxBytes, profile?.totalMaxBytes ?? totalMaxBytes),
      resultMaxBytes: Math.min(resultMaxBytes, profile?.resultMaxBytes ?? resultMaxBytes),
      textMaxChars: profile?.textMaxChars ?? Number.POSITIVE_INFINITY,
    }
  }
}

function expressionFrom(source: string, path: string): RegExp {
  let expression: RegExp
  try {
    expression = new RegExp(source)
  } catch (cause) {
    throw new GatewayError('CONFIG', `${path} is no regular expression`, { cause, path })
  }
  if (longestTextFor(source) >= MAX_NAME_CHARS) return expression
  const message = `${path} may take too long. Do not repeat what holds a repetition or a choice, and begin with "^"`
  throw new GatewayError('CONFIG', message, { path })
}

/** Python clients refuse an event of 1 MiB (1,048,576 bytes). The rest is for the envelope. */
export const RESULT_MAX_BYTES = 1_000_000
