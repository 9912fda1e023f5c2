import { readFileSync } from 'node:fs'
import { isRecord } from '@x/internal'

/** Returns the version of this package. */
export function packageVersion(): string {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  )
  const version = isRecord(manifest) ? manifest['version'] : undefined
  return typeof version === 'string' ? version : '0.0.0'
}
