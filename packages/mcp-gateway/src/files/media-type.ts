const MIME_TYPE =
  /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:\s*;\s*[\w!#$&^.+-]+=(?:[\w!#$&^.+-]+|"[\w !#$&^.+:/-]*"))*$/

/** It becomes a header of downloads: whatever is no media type (RFC 9110, section 8.3.1) is as good as none. */
export function mediaTypeFrom(text: string | undefined): string | undefined {
  const isType = text !== undefined && text.length <= 255 && MIME_TYPE.test(text)
  return isType ? text : undefined
}
