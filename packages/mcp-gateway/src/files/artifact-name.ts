import { legible } from '../internal/redacted.ts'

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
