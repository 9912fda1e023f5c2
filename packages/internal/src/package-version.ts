import { readFileSync } from 'node:fs'
import { isRecord } from './is-record.ts'

/** Version of the package that is built, which its `tsdown.config.ts` defines. In sources it is not defined. */
declare const PACKAGE_VERSION: unknown

/**
 * Returns the version of the package that a module belongs to. The build of a package writes it into the code, because
 * in an application that was bundled into one file the manifest of the package is missing. Does without `findPackageJSON()`
 * of Node, which Bun does not have. Never throws.
 *
 * @param url URL of the module. Bundlers may leave it out
 */
export function readPackageVersion(url: string | undefined): string {
  if (typeof PACKAGE_VERSION === 'string') return PACKAGE_VERSION
  try {
    for (let folder = new URL('./', url); ; folder = new URL('../', folder)) {
      const version = versionIn(folder)
      if (version !== undefined) return version
      if (new URL('../', folder).href === folder.href) return 'unknown'
    }
  } catch {
    return 'unknown'
  }
}

/** Returns the version in the manifest of a folder. `undefined` if there is none. */
function versionIn(folder: URL): string | undefined {
  let text: string
  try {
    text = readFileSync(new URL('package.json', folder), 'utf8')
  } catch {
    return undefined
  }
  const manifest: unknown = JSON.parse(text)
  return isRecord(manifest) && typeof manifest['version'] === 'string'
    ? manifest['version']
    : 'unknown'
}
