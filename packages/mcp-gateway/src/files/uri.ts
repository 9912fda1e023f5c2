import { legible } from '@x/internal'
import { isScopeId } from './scopes.ts'

/** The parts of a URI. No version means the latest one. */
export interface ArtifactAddress {
  readonly scope: string
  readonly name: string
  readonly version?: number | undefined
}

/** Length of the longest URI: each byte of the name as `%XX`, and the other parts. */
const MAX_LENGTH = 1024

/** URIs of files (RFC 6570). */
export const URI_TEMPLATE = 'artifact://{scope}/{name}{?version}'

const SCHEME = 'artifact://'

/** `artifact://{scope}/{name}`, and `?version=N` if there is one. The name is one segment. */
export function artifactUriOf(address: ArtifactAddress): string {
  const { scope, name, version } = address
  const query = version === undefined ? '' : `?version=${version}`
  return `${SCHEME}${scope}/${encodedName(name)}${query}`
}

/**
 * Parses a URI. Other ways to escape the same name give the same address. `undefined` for other texts.
 * Never throws.
 */
export function artifactAddressFrom(uri: string): ArtifactAddress | undefined {
  if (uri.length > MAX_LENGTH || !uri.startsWith(SCHEME)) return undefined
  const parts = /^([a-z2-7]{26})\/([^/?#]+)(?:\?version=([1-9]\d{0,8}))?$/.exec(
    uri.slice(SCHEME.length),
  )
  const [, scope = '', encoded = '', version] = parts ?? []
  const name = decodedName(encoded)
  if (name === undefined || !isScopeId(scope)) return undefined
  return version === undefined ? { scope, name } : { scope, name, version: Number(version) }
}

/** Encodes a name as one segment of a path (RFC 3986, section 3.3). */
export function encodedName(name: string): string {
  return encodeURIComponent(name).replaceAll(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** Decodes a segment of a path. `undefined` for an invalid name. */
export function decodedName(segment: string): string | undefined {
  try {
    const name = decodeURIComponent(segment).normalize('NFC')
    return isArtifactName(name) ? name : undefined
  } catch {
    return undefined
  }
}

const MAX_BYTES = 255
// Characters that end lines or move the cursor: C0, DEL and C1.
// oxlint-disable-next-line eslint/no-control-regex -- they are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/u

/** Returns whether a text is a valid name: NFC, 1 to 255 bytes, no control characters, not `.` or `..`. */
export function isArtifactName(text: string): boolean {
  if (text === '' || text === '.' || text === '..') return false
  if (!text.isWellFormed() || CONTROL.test(text) || text !== text.normalize('NFC')) return false
  return Buffer.byteLength(text) <= MAX_BYTES
}

/**
 * Makes a valid name from any text, without invisible characters such as marks that change the direction of writing. Never
 * throws.
 */
export function artifactNameFrom(text: string): string {
  // Ends of lines and columns become spaces. Other control characters, also in sequences, are removed.
  const line = text.toWellFormed().replaceAll(/[\t-\r\u0085\p{Zl}\p{Zp}]/gu, ' ')
  const plain = legible(line).normalize('NFC').trim()
  let name = ''
  let bytes = 0
  for (const character of plain) {
    bytes += Buffer.byteLength(character)
    if (bytes > MAX_BYTES) break
    name += character
  }
  // A text that was cut may have another normal form.
  name = name.normalize('NFC').trim()
  if (isArtifactName(name)) return name
  return name === '.' || name === '..' ? name.replaceAll('.', '_') : 'file'
}

/** Makes a file name that cannot leave its folder from the name of an artifact. */
export function fileNameFrom(name: string): string {
  return name.replaceAll(/[/\\]/g, '_')
}
