import { readFileSync } from 'node:fs'
import * as module from 'node:module'

/** The version of the package that this file belongs to, built or not. */
export function packageVersion(): string {
  const path = module.findPackageJSON(import.meta.url)
  const manifest: unknown = path === undefined ? {} : JSON.parse(readFileSync(path, 'utf8'))
  if (typeof manifest !== 'object' || manifest === null || !('version' in manifest))
    return 'unknown'
  return String(manifest.version)
}
