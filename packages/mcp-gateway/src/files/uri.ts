import { isScopeId } from './namespaces.ts'
import { legible } from '../internal/redacted.ts'

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

const MAX_BYTES = 255
// What ends lines or moves the cursor: C0, DEL and C1.
// oxlint-disable-next-line eslint/no-control-regex -- they are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/u

/** Whether a text is the name of an artifact as it is: NFC, 1 to 255 bytes, no control characters, not `.` or `..`. */
export function isArtifactName(text: string): boolean {
  if (text === '' || text === '.' || text === '..') return false
  if (text !== wellFormed(text) || CONTROL.test(text) || text !== text.normalize('NFC'))
    return false
  return Buffer.byteLength(text) <= MAX_BYTES
}

/**
 * A name made of whatever an agent or a client calls a file, without what cannot be seen, such as a mark that turns
 * the letters around. Never fails: a name that cannot be kept is changed.
 */
export function artifactNameFrom(text: string): string {
  const line = wellFormed(text).replaceAll(new RegExp(CONTROL, 'gu'), ' ')
  const plain = legible(line.replaceAll(/[\p{Zl}\p{Zp}]/gu, ' '))
    .normalize('NFC')
    .trim()
  let name = ''
  let bytes = 0
  for (const character of plain) {
    bytes += Buffer.byteLength(character)
    if (bytes > MAX_BYTES) break
    name += character
  }
  // What a cut left may have another normal form.
  name = name.normalize('NFC').trim()
  if (isArtifactName(name)) return name
  return name === '.' || name === '..' ? name.replaceAll('.', '_') : 'file'
}

/**
 * What people are shown as the name of a file, and programs that save it go by: in one line, without what cannot be
 * seen, such as a mark that turns the letters around. Never fails.
 */
export function artifactTitleFrom(text: string): string {
  const line = text.slice(0, MAX_BYTES).replaceAll(/[\n\t\p{Zl}\p{Zp}]/gu, ' ')
  return legible(wellFormed(line)).trim() || 'file'
}

/** The same as the name of a file in a folder, and of none outside of it. */
export function fileNameFrom(title: string): string {
  const name = title.replaceAll(/[/\\]/g, '_')
  return name === '.' || name === '..' ? name.replaceAll('.', '_') : name
}

/** With half of a surrogate pair replaced, which no encoding has. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString()
}
