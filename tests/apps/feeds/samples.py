"""Feeds as they are found, one of each format."""

from __future__ import annotations

RSS_091 = """<?xml version="1.0"?>
<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://my.netscape.com/publish/formats/rss-0.91.dtd">
<rss version="0.91">
  <channel>
    <title>Harbour Notes</title><link>https://harbour.example/</link><description>Tides</description>
    <language>en</language>
    <item><title>High water</title><link>https://harbour.example/high</link><description>At six.</description></item>
    <item><title>Low water</title><link>https://harbour.example/low</link></item>
  </channel>
</rss>"""

RSS_092 = """<rss version="0.92"><channel>
  <title>Old Logbook</title><link>https://log.example/</link><description>d</description>
  <item><description>No title, and a &lt;b&gt;word&lt;/b&gt;.</description></item>
  <item><title>Signal</title><description>Flags up.</description>
    <enclosure url="https://log.example/a.mp3" length="3" type="audio/mpeg"/></item>
</channel></rss>"""

RSS_10 = """<?xml version="1.0" encoding="utf-8"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
         xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/">
  <channel rdf:about="https://rdf.example/">
    <title>Beacons</title><link>https://rdf.example/</link><description>Lights</description>
    <sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>
    <items><rdf:Seq><rdf:li resource="https://rdf.example/1"/></rdf:Seq></items>
  </channel>
  <item rdf:about="https://rdf.example/1">
    <title>North light</title><link>https://rdf.example/1</link><description>It is lit.</description>
    <dc:date>2026-03-01T12:00:00+01:00</dc:date><dc:creator>Keeper</dc:creator>
  </item>
</rdf:RDF>"""

RSS_20 = """<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:atom="http://www.w3.org/2005/Atom">
  <channel>
    <title>Tide &amp; Time</title><link>https://tide.example/</link><description>Daily</description>
    <atom:link href="https://tide.example/feed" rel="self" type="application/rss+xml"/>
    <ttl>90</ttl>
    <skipHours><hour>0</hour><hour>23</hour><hour>24</hour><hour>99</hour></skipHours>
    <skipDays><day>Saturday</day><day>sunday</day></skipDays>
    <item>
      <title>Spring &lt;i&gt;tide&lt;/i&gt;</title><link>https://tide.example/p/2?a=1&amp;b=2</link>
      <guid isPermaLink="false">tide-2</guid><pubDate>Sun, 01 Mar 2026 10:00:00 GMT</pubDate>
      <author>mate@tide.example (First Mate)</author>
      <description>Short.</description>
      <content:encoded><![CDATA[<p>Long, with a <a href="/more">link</a>.</p>]]></content:encoded>
    </item>
    <item><title>Neap tide</title><guid>https://tide.example/p/1</guid>
      <pubDate>Sat, 28 Feb 2026 23:30:00 -0500</pubDate></item>
    <item><title>A note</title><pubDate>not a date</pubDate></item>
  </channel>
</rss>"""

ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <title type="html">Moor&amp;amp;ings</title><link href="https://moor.example/"/>
  <link rel="self" href="https://moor.example/atom.xml"/><id>urn:feed</id><updated>2026-03-02T00:00:00Z</updated>
  <entry>
    <id>tag:moor.example,2026:1</id><title>First berth</title>
    <link rel="enclosure" href="https://moor.example/1.mp3"/><link rel="replies" href="https://moor.example/1/c"/>
    <link href="berths/1"/>
    <published>2026-03-01T00:00:00Z</published><updated>2026-03-02T00:00:00Z</updated>
    <author><name>Harbour master</name></author>
    <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Made <em>fast</em>.</p></div></content>
  </entry>
</feed>"""

ATOM_03 = """<feed version="0.3" xmlns="http://purl.org/atom/ns#">
  <title>Old moorings</title><link rel="alternate" type="text/html" href="https://old.example/"/>
  <entry><id>old-1</id><title>Rope</title><link rel="alternate" href="https://old.example/1"/>
    <issued>2004-05-06T07:08:09Z</issued><modified>2004-05-07T07:08:09Z</modified><summary>Coiled.</summary></entry>
</feed>"""

JSON_FEED = """{"version": "https://jsonfeed.org/version/1.1", "title": "Buoys", "home_page_url": "https://buoy.example/",
 "items": [{"id": "b2", "url": "https://buoy.example/2", "title": "Red", "content_html": "<p>Left.</p>",
            "date_published": "2026-03-01T10:00:00Z", "date_modified": "2026-03-02T10:00:00Z",
            "authors": [{"name": "Pilot"}]},
           {"id": 1, "content_text": "Green & right <of> us"}]}"""
