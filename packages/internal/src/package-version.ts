import { readFileSync } from 'node:fs'
import * as module from 'node:module' // a named import of a new function fails on an old Node.js, before the check
import { isRecord } from './is-record.ts'

/** Returns the version of the package that a module belongs to. @param url URL of the module */
export function readPackageVersion(url: string): string {
  const path = module.findPackageJSON(url)
  const manifest: unknown = path === undefined ? {} : JSON.parse(readFileSync(path, 'utf8'))
  return isRecord(manifest) ? String(manifest['version']) : 'unknown'
}
