/** `12 ms`, `1.2 s`, `2 min`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 100_000) return `${(ms / 1000).toFixed(1)} s`
  return `${Math.round(ms / 60_000)} min`
}

export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(1)} kB`
  return `${(bytes / 1_000_000).toFixed(1)} MB`
}

/** `14:02:11`, in the time zone of the browser; the same for all languages, so that columns align. */
export function formatTime(at: number): string {
  return new Date(at).toTimeString().slice(0, 8)
}

/** Indents each line that is JSON, or that is JSON in an event stream. Other lines stay as they are. */
export function prettyBody(body: string): string {
  return body.replaceAll(/^(data: )?([{[].*)$/gm, (line, field: string = '', json: string) => {
    try {
      return `${field}${JSON.stringify(JSON.parse(json), null, 2)}`
    } catch {
      return line
    }
  })
}
