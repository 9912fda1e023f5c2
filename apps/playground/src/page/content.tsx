import type { ContentBlock } from '@modelcontextprotocol/sdk/types.js'
import type { ReactElement, ReactNode } from 'react'
import type { ToolResult } from '../timeline/events.ts'
import { formatBytes } from './format.ts'

// Servers are not trusted: the page shows their content as text, or as data of a listed type.

const IMAGE_TYPES = /^image\/(?:png|jpeg|gif|webp)$/
const AUDIO_TYPES = /^audio\/(?:wav|x-wav|mpeg|mp3|mp4|ogg|webm|flac|aac)$/

/** The address, if it is one that a browser may open. */
export function safeUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url.href : undefined
}

export function ExternalLink({
  url,
  children,
}: {
  url: string
  children: ReactNode
}): ReactElement {
  const href = safeUrl(url)
  if (href === undefined)
    return <span title="Only http and https addresses are opened">{children}</span>
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  )
}

/** Text that may be long: it scrolls, also by keyboard. */
export function Code({ text, label }: { text: string; label: string }): ReactElement {
  return (
    <pre className="code" tabIndex={0} role="region" aria-label={label}>
      {text}
    </pre>
  )
}

export function Json({ value, label }: { value: unknown; label: string }): ReactElement {
  return <Code text={JSON.stringify(value, null, 2) ?? ''} label={label} />
}

export function ResultView({ result }: { result: ToolResult }): ReactElement {
  const { content, structuredContent, isError } = result
  return (
    <div className={isError ? 'result stack error' : 'result stack'}>
      {content.length === 0 && structuredContent === undefined && (
        <p className="quiet">The tool answered with nothing.</p>
      )}
      {content.map((block, index) => (
        <Block block={block} key={index} />
      ))}
      {structuredContent !== undefined && (
        <details>
          <summary>Structured content</summary>
          <Json value={structuredContent} label="Structured content" />
        </details>
      )}
    </div>
  )
}

function Block({ block }: { block: ContentBlock }): ReactElement {
  switch (block.type) {
    case 'text':
      return block.text.length > 400 || block.text.startsWith('{') ? (
        <Code text={block.text} label="Text of the result" />
      ) : (
        <p className="text">{block.text}</p>
      )
    case 'image':
    case 'audio':
      return (
        <Binary
          mimeType={block.mimeType}
          base64={block.data}
          name={`${block.type} of the result`}
        />
      )
    case 'resource_link':
      return (
        <p className="resource">
          <ExternalLink url={block.uri}>{block.title ?? block.name}</ExternalLink>
          <span className="quiet"> {block.description ?? block.uri}</span>
        </p>
      )
    case 'resource':
      return (
        <figure className="resource">
          <figcaption className="quiet">{block.resource.uri}</figcaption>
          {'text' in block.resource ? (
            <Code text={block.resource.text} label={block.resource.uri} />
          ) : (
            <Binary
              mimeType={block.resource.mimeType ?? ''}
              base64={block.resource.blob}
              name={block.resource.uri}
            />
          )}
        </figure>
      )
  }
}

interface BinaryProps {
  readonly mimeType: string
  readonly base64: string
  readonly name: string
}

function Binary({ mimeType, base64, name }: BinaryProps): ReactElement {
  const source = `data:${mimeType};base64,${base64}`
  if (IMAGE_TYPES.test(mimeType)) return <img src={source} alt={name} />
  if (AUDIO_TYPES.test(mimeType)) return <audio controls src={source} aria-label={name} />
  const size = formatBytes(Math.floor((base64.length * 3) / 4))
  return (
    <p className="quiet">{`${name}: ${mimeType || 'data of an unknown type'}, ${size}. The page does not show this type.`}</p>
  )
}
