import { extname } from 'node:path'

import { lookup } from 'mime-types'

/** The type that the name of a file tells; `undefined` for a name that tells none, or two: `.ts` is a program or a film. */
export function namedTypeOf(name: string): string | undefined {
  const extension = extname(name).toLowerCase()
  if (['.ts', '.mts'].includes(extension)) return undefined
  return lookup(extension) || undefined
}
