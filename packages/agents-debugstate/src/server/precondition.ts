/**
 * When a write may happen, by the version that is stored: RFC 9110, sections 13.1.1 and 13.1.2.
 * Plain data, so that a store can evaluate it wherever its values are.
 */
export interface Precondition {
  /** The stored version must be one of these; `'*'`: there must be one. */
  readonly ifMatch?: readonly string[] | '*' | undefined
  /** The stored version must be none of these; `'*'`: there must be none. */
  readonly ifNoneMatch?: readonly string[] | '*' | undefined
}

/** Whether `precondition` holds where `version` is stored (`undefined`: nothing is). */
export function holds(
  precondition: Precondition | undefined,
  version: string | undefined,
): boolean {
  const { ifMatch, ifNoneMatch } = precondition ?? {}
  return (
    (ifMatch === undefined || matches(ifMatch, version)) &&
    (ifNoneMatch === undefined || !matches(ifNoneMatch, version))
  )
}

/**
 * The precondition of a request. `undefined`: there is none. `'malformed'`: a header is there and
 * cannot be read; to ignore it would turn a careful write into a blind one.
 */
export function preconditionFrom(headers: Headers): Precondition | 'malformed' | undefined {
  const match = headers.get('if-match')
  const noneMatch = headers.get('if-none-match')
  if (match === null && noneMatch === null) return undefined
  // Only strong tags count for `If-Match`; we never give out weak ones.
  const ifMatch = match === null ? undefined : tagsFrom(match)
  const ifNoneMatch = noneMatch === null ? undefined : tagsFrom(noneMatch.replace(/W\//g, ''))
  if (ifMatch === 'malformed' || ifNoneMatch === 'malformed') return 'malformed'
  return { ifMatch, ifNoneMatch }
}

/** A version as it stands in an `ETag` header. */
export function etagOf(version: string): string {
  return `"${version}"`
}

function matches(versions: readonly string[] | '*', version: string | undefined): boolean {
  if (version === undefined) return false
  return versions === '*' || versions.includes(version)
}

function tagsFrom(header: string): readonly string[] | '*' | 'malformed' {
  if (header.trim() === '*') return '*'
  const tags = header.split(',').map((tag) => tag.trim())
  if (!tags.every((tag) => /^(W\/)?"[^"]*"$/.test(tag))) return 'malformed'
  return tags.map((tag) => (tag.startsWith('W/') ? tag : tag.slice(1, -1)))
}
