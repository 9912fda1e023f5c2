import { readFileSync } from 'node:fs'
import { isRecord } from '@x/internal'

/** Of this package, as its manifest says. */
export function packageVersion(): string {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  )
  const version = isRecord(manifest) ? manifest['version'] : undefined
  return typeof version === 'string' ? version : '0.0.0'
}
