import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { GatewayError } from '../errors.ts'

/**
 * Imports a package that adds a store, a source of agents or an authenticator. It may be installed beside this package,
 * or beside the configuration file.
 *
 * @throws GatewayError `CONFIG` if the package is not installed
 */
export async function importAdapter(
  name: string,
  { folder, path }: { readonly folder: string; readonly path: string },
): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await import(name)
  } catch (error) {
    if (!isMissing(error, name)) throw error
  }
  try {
    const file = createRequire(resolve(folder, 'file.js')).resolve(name)
    return await import(pathToFileURL(file).href)
  } catch (cause) {
    if (!isMissing(cause, name)) throw cause
    const message = `The setting "${path}" needs the package ${name}. Install it: npm install ${name}`
    throw new GatewayError('CONFIG', message, { path })
  }
}

/** Whether this package is missing, not one that it imports. */
function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false
  const isAbsent = error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND'
  return isAbsent && error.message.includes(`'${name}'`)
}
