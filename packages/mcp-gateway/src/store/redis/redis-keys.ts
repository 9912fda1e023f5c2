/** Where things lie in Redis. What is in braces decides the node of a cluster: all of a gateway is on one. */
export interface RedisKeys {
  /** Followed by the key of a value. */
  readonly records: string
  readonly names: string
  readonly ends: string
  stream(name: string): string
  tagOf(stream: string): string
  streamOfTag(tag: string): string
  /** Events of a log. */
  events(tag: string): string
  /** Name and header of a log. */
  head(tag: string): string
  /** Stream that ends the blocking read of a process. */
  wake(process: string): string
  channel(topic: string): string
  counter(topic: string): string
  blob(id: string): string
  bucket(name: string): string
}

export function redisKeys(prefix: string): RedisKeys {
  const all = `{${prefix}}`
  return {
    records: `${all}:value:`,
    names: `${all}:names`,
    ends: `${all}:ends`,
    stream: (name) => `${all}:log:${name}`,
    tagOf: (stream) => `${all}:tag:${stream}`,
    streamOfTag: (tag) => `${all}:stream:${tag}`,
    events: (tag) => `${all}:events:${tag}`,
    head: (tag) => `${all}:head:${tag}`,
    wake: (process) => `${all}:wake:${process}`,
    channel: (topic) => `${all}:channel:${topic}`,
    counter: (topic) => `${all}:counter:${topic}`,
    blob: (id) => `${all}:blob:${id}`,
    bucket: (name) => `${all}:rate:${name}`,
  }
}
