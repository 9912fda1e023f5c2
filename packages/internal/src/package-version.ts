import { existsSync, readFileSync } from 'node:fs'
import { isRecord } from './is-record.ts'

/**
 * Returns the version of the package that a module belongs to. Does without `findPackageJSON()` of Node, which Bun does
 * not have.
 *
 * @param url URL of the module
 */
export function readPackageVersion(url: string): string {
  let folder = new URL('./', url)
  for (;;) {
    const path = new URL('package.json', folder)
    if (existsSync(path)) {
      const manifest: unknown = JSON.parse(readFileSync(path, 'utf8'))
      return isRecord(manifest) ? String(manifest['version']) : 'unknown'
    }
    const outer = new URL('../', folder)
    if (outer.href === folder.href) return 'unknown'
    folder = outer
  }
}
