import { GatewayError } from '../errors.ts'
import { longestTextFor } from '@x/internal'
import type { InlineSettings } from '../options.ts'
import type { FileKind } from './file-kind.ts'

/** Limits of one result. */
export interface InlineLimits {
  readonly maxBytes: Readonly<Record<FileKind, number>>
  readonly totalMaxBytes: number
  readonly resultMaxBytes: number
  readonly textMaxChars: number
}

/** A client chooses its name: expressions are tried on this many characters of it. */
const MAX_NAME_CHARS = 128

/**
 * Returns a function that finds the limits for the name of a client.
 *
 * @throws GatewayError `CONFIG` for an expression with a mistake, or that a name could keep busy
 */
export function inlineLimitsFrom(settings: InlineSettings): (clientName?: string) => InlineLimits {
  const { totalMaxBytes, resultMaxBytes } = settings
  const maxBytes = {
    image: settings.imageMaxBytes,
    audio: settings.audioMaxBytes,
    text: settings.textMaxBytes,
    binary: settings.binaryMaxBytes,
  }
  const profiles = settings.clientProfiles.map((profile, index) => ({
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
