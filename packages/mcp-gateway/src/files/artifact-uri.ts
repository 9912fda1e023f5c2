import { isArtifactName } from './artifact-name.ts'
import { isScopeId } from './scope-id.ts'

/** What a URI says. Without a version it is the latest one. */
export interface ArtifactAddress {
  readonly scope: string
  readonly name: string
  readonly version?: number | undefined
}

/** Longest name, each byte as `%XX`, and what is around it. */
const MAX_LENGTH = 1024

/** `artifact://{scope}/{name}`, and `?version=N` if there is one. The name is one segment. */
export function artifactUriOf(address: ArtifactAddress, scheme = 'artifact'): string {
  const { scope, name, version } = address
  const query = version === undefined ? '' : `?version=${version}`
  return `${scheme}://${scope}/${encodedName(name)}${query}`
}

/**
 * The address in a URI. Other ways to escape the same name are understood, and give the same address.
 * `undefined` for whatever is no URI of an artifact. Never throws.
 */
export function artifactAddressFrom(uri: string, scheme = 'artifact'): ArtifactAddress | undefined {
  const start = `${scheme}://`
  if (uri.length > MAX_LENGTH || !uri.startsWith(start)) return undefined
  const parts = /^([a-z2-7]{26})\/([^/?#]+)(?:\?version=([1-9]\d{0,8}))?$/.exec(
    uri.slice(start.length),
  )
  const [, scope = '', encoded = '', version] = parts ?? []
  const name = decodedName(encoded)
  if (name === undefined || !isScopeId(scope)) return undefined
  return version === undefined ? { scope, name } : { scope, name, version: Number(version) }
}

/** A name as one segment of a path (RFC 3986, section 3.3). */
export function encodedName(name: string): string {
  return encodeURIComponent(name).replaceAll(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** `undefined` for a segment that is no name. */
export function decodedName(segment: string): string | undefined {
  try {
    const name = decodeURIComponent(segment).normalize('NFC')
    return isArtifactName(name) ? name : undefined
  } catch {
    return undefined
  }
}
