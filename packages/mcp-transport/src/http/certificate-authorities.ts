import { readFileSync, statSync } from 'node:fs'
import * as tls from 'node:tls'
import { TransportError } from '../transport-error.ts'

/** One list for all dispatchers: a bundle is some hundred kilobytes. */
let last: { readonly path: string; readonly mtimeMs: number; readonly list: string[] } | undefined

/**
 * The certificate authorities to trust, where the environment names a file (`SSL_CERT_FILE`): as with
 * OpenSSL they take the place of the built-in ones, and those of `NODE_EXTRA_CA_CERTS` come on top.
 * Without it, `undefined`: Node's own list, which knows `NODE_EXTRA_CA_CERTS` already.
 *
 * @throws TransportError `CONFIG` if the file cannot be read: trusting others instead would be a surprise.
 */
export function certificateAuthorities(
  env: Readonly<Record<string, string | undefined>> = process.env,
): string[] | undefined {
  const path = env['SSL_CERT_FILE']
  if (path === undefined || path === '') return undefined
  try {
    const { mtimeMs } = statSync(path)
    if (last?.path !== path || last.mtimeMs !== mtimeMs) {
      const list = [readFileSync(path, 'utf8'), ...tls.getCACertificates('extra')]
      last = { path, mtimeMs, list }
    }
    return last.list
  } catch (cause) {
    const message = `SSL_CERT_FILE names ${path}, which cannot be read: correct or unset it`
    throw new TransportError('CONFIG', message, { cause })
  }
}
