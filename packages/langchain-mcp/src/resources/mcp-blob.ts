/** What is known of a resource, beside its content. */
export interface ResourceMetadata {
  readonly uri: string
  readonly mimeType?: string | undefined
  readonly name?: string | undefined
  readonly title?: string | undefined
  readonly description?: string | undefined
}

/** The bytes of a resource: a `Blob` that knows where it came from. */
export class McpBlob extends Blob {
  readonly metadata: ResourceMetadata

  /** `base64` as the server sent it. */
  constructor(base64: string, metadata: ResourceMetadata) {
    super([Buffer.from(base64, 'base64')], { type: metadata.mimeType ?? '' })
    this.metadata = metadata
  }
}
