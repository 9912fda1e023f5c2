import type { ContentBlock } from '@modelcontextprotocol/sdk/types.js'
import type { ReactElement } from 'react'
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

/** A link, or only its text if a browser may not open the address. */
export function ExternalLink({ url, text }: { url: string; text: string }): ReactElement {
  const href = safeUrl(url)
  if (href === undefined)
    return <span title="Only http and https addresses are opened">{text}</span>
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {text}
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
          <Code text={JSON.stringify(structuredContent, null, 2)} label="Structured content" />
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
      return <Media {...block} name={`${block.type} of the result`} />
    case 'resource_link':
      return (
        <p>
          <ExternalLink url={block.uri} text={block.title ?? block.name} />
          <span className="quiet"> {block.description ?? block.uri}</span>
        </p>
      )
    case 'resource': {
      const { uri, mimeType = 'data of an unknown type', ...data } = block.resource
      return (
        <figure>
          <figcaption className="quiet">{uri}</figcaption>
          {'text' in data ? (
            <Code text={data.text} label={uri} />
          ) : (
            <Media mimeType={mimeType} data={data.blob} name={uri} />
          )}
        </figure>
      )
    }
  }
}

interface MediaProps {
  readonly mimeType: string
  /** In base64. */
  readonly data: string
  readonly name: string
}

function Media({ mimeType, data, name }: MediaProps): ReactElement {
  const source = `data:${mimeType};base64,${data}`
  if (IMAGE_TYPES.test(mimeType)) return <img src={source} alt={name} />
  if (AUDIO_TYPES.test(mimeType)) return <audio controls src={source} aria-label={name} />
  const size = formatBytes(Math.floor((data.length * 3) / 4))
  return (
    <p className="quiet">{`${name}: ${mimeType}, ${size}. The page does not show this type.`}</p>
  )
}
