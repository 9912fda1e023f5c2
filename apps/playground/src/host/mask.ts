/** Values that must not be shown in full. */
export interface Sensitive {
  /** Session ids. They are shortened. */
  readonly ids: Iterable<string>
  /** Tokens and keys. They are replaced. */
  readonly secrets: Iterable<string>
}

const MASK = '•••'

/** Names of headers and JSON members, and of query parameters, whose values are secrets. */
const SECRET =
  /authorization|cookie|secret|password|passwd|credential|signature|api[-_]?key|private[-_]?key|(?<!progress|next|page|max)[-_]?tokens?$/i
const SESSION = /session[-_]?id$|^last-event-id$/i

/** First four characters of an id, and its length. */
export function shortId(id: string): string {
  const characters = Array.from(id)
  return characters.length <= 4 ? id : `${characters.slice(0, 4).join('')}… (${id.length})`
}

/** Headers as they may be shown. */
export function maskHeaders(
  headers: Readonly<Record<string, string>>,
  sensitive: Sensitive,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      if (SECRET.test(name)) {
        const [, scheme = ''] = /^(Bearer|Basic|DPoP) /i.exec(value) ?? []
        return [name, scheme === '' ? MASK : `${scheme} ${MASK}`]
      }
      return [name, SESSION.test(name) ? shortId(value) : maskText(value, sensitive)]
    }),
  )
}

/**
 * A body as it may be shown. It may be cut off, and be JSON, events, or anything else: known ids and secrets
 * are found everywhere, others in JSON members (also of JSON within a string) and query parameters of these names.
 */
export function maskText(text: string, { ids, secrets }: Sensitive): string {
  let masked = text
  for (const secret of secrets) masked = replaceAll(masked, secret, MASK)
  for (const id of ids) masked = replaceAll(masked, id, shortId(id))
  return masked
    .replace(MEMBER, maskedMember)
    .replace(ESCAPED_MEMBER, maskedMember)
    .replace(/\b(Bearer|Basic|DPoP) [\w.~+/=-]{8,}/g, `$1 ${MASK}`)
    .replace(/([?&]([\w.-]{1,60})=)([^&#\s"'\\<>]+)/g, (all, start: string, name: string) =>
      SECRET.test(name) || /^code$|^key$|^sig$/i.test(name) ? start + MASK : all,
    )
}

/** A JSON member with a text: quote, name, space, value, quote. The last quote may be cut off. */
const MEMBER = /(")([\w.-]{1,60})"(\s*:\s*)"((?:[^"\\]|\\[\s\S])*)("|\\?$)/g
/** The same in JSON that is the text of a JSON string: each quote has a backslash. */
const ESCAPED_MEMBER =
  /(\\")([\w.-]{1,60})\\"(\s*:\s*)\\"((?:[^"\\]|\\\\(?:\\"|\\\\|[^\\]))*)(\\"|\\{0,3}$)/g

function maskedMember(
  all: string,
  ...[quote = '', name = '', colon = '', value = '', end = '']: string[]
): string {
  const shown = SECRET.test(name)
    ? MASK
    : SESSION.test(name) && !value.includes('… (')
      ? shortId(value)
      : undefined
  return shown === undefined ? all : `${quote}${name}${quote}${colon}${quote}${shown}${end}`
}

/** Replaces a text; at the end also its beginning, because a body may be cut off in the middle of it. */
function replaceAll(text: string, searched: string, replacement: string): string {
  if (searched.length < 4) return text
  const replaced = text.replaceAll(searched, () => replacement)
  for (let length = searched.length - 1; length > 4; length--) {
    if (replaced.endsWith(searched.slice(0, length))) {
      return replaced.slice(0, -length) + replacement
    }
  }
  return replaced
}
